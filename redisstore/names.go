package redisstore

import (
	"math/rand/v2"
	"sync/atomic"
)

// names keeps the texts of a few keys that were asked for lately, so that one which is asked for again and again is not
// written anew each time. They are few enough for a cache of the processor: to look further away takes longer than to write.
type names struct {
	slots [64]atomic.Pointer[named]
}

type named struct {
	tag  uint32
	text string
}

// of returns the bytes as a text.
func (n *names) of(tag uint32, key []byte) string {
	slot := &n.slots[tag%uint32(len(n.slots))]
	if e := slot.Load(); e != nil && e.tag == tag && e.text == string(key) {
		return e.text
	}
	text := string(key)
	if rand.Uint32()%16 == 0 { // whoever is asked for often gets in, and stays
		slot.Store(&named{tag, text})
	}
	return text
}
