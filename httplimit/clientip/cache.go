package clientip

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
)

// keyCache remembers the text of addresses that come again and again, so that to write one allocates only when it is new.
// It has so many places, and the last to come has its place.
type keyCache struct {
	seed   maphash.Seed // its own, so that nobody can aim at one place
	places [1024]atomic.Pointer[keyEntry]
}

type keyEntry struct {
	addr netip.Addr
	text string
}

func newKeyCache() *keyCache { return &keyCache{seed: maphash.MakeSeed()} }

// text returns the shortest form of an address without a zone.
func (c *keyCache) text(a netip.Addr) string {
	place := &c.places[maphash.Comparable(c.seed, a)%uint64(len(c.places))]
	if e := place.Load(); e != nil && e.addr == a {
		return e.text
	}
	e := &keyEntry{addr: a, text: a.String()}
	place.Store(e)
	return e.text
}
