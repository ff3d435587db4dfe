package httplimit

import "sync"

// remembered keeps texts that are made again and again from few keys, such as the names of headers and rules.
type remembered[K comparable] struct {
	write func(K) string
	mu    sync.RWMutex
	texts map[K]string
}

func remember[K comparable](write func(K) string) *remembered[K] {
	return &remembered[K]{write: write, texts: make(map[K]string)}
}

func (m *remembered[K]) get(k K) string {
	m.mu.RLock()
	s, ok := m.texts[k]
	m.mu.RUnlock()
	if ok {
		return s
	}
	s = m.write(k)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.texts) < 1000 { // more are not few
		m.texts[k] = s
	}
	return s
}
