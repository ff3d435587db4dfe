package httplimit

// Lines returns for how many keys somebody waits for a permit.
func (m *Middleware) Lines() int {
	m.queue.mu.Lock()
	defer m.queue.mu.Unlock()
	return len(m.queue.lines)
}
