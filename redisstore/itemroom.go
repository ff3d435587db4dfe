package redisstore

import "sync"

// itemRoom is room for the items of a take, which nobody keeps once the take is decided: a waiter has copies of its own.
type itemRoom struct{ items []item }

// maxItemRoom is how many items room is kept for; nearly all takes have fewer.
const maxItemRoom = 64

var itemRooms = sync.Pool{New: func() any { return new(itemRoom) }}

// of returns room for so many items.
func (r *itemRoom) of(n int) []item {
	if n > cap(r.items) {
		r.items = make([]item, n)
	}
	r.items = r.items[:n]
	return r.items
}

func (r *itemRoom) leave() {
	clear(r.items)
	if cap(r.items) <= maxItemRoom {
		itemRooms.Put(r)
	}
}
