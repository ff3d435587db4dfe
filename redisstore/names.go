package redisstore

import "sync/atomic"

// names keeps the texts of keys that were asked for last, so that a key which is asked for again and again is not written
// anew each time: one for each tag, which keys fall on evenly.
type names struct {
	last [tags]atomic.Pointer[string]
}

// of returns the bytes as a text.
func (n *names) of(tag uint32, key []byte) string {
	if s := n.last[tag].Load(); s != nil && *s == string(key) {
		return *s
	}
	s := string(key)
	n.last[tag].Store(&s)
	return s
}
