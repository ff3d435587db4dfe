package redisstore

import (
	"slices"
	"sync"
)

// ring holds the tags in the order of the slots that a cluster puts them in, and each one's place in that order. Nodes
// have ranges of slots, so that steps of one length around the ring come by all of them.
type ring struct {
	tags, places [tags]uint16
}

// slotRing makes the ring when a limit first has shards.
var slotRing = sync.OnceValue(func() *ring {
	r := &ring{}
	var slots [tags]uint16
	for t := range uint32(tags) {
		r.tags[t], slots[t] = uint16(t), slotOfTag(t)
	}
	slices.SortStableFunc(r.tags[:], func(a, b uint16) int { return int(slots[a]) - int(slots[b]) })
	for i, t := range r.tags {
		r.places[t] = uint16(i)
	}
	return r
})

// shardStep is the golden section of the ring, to an odd number: however many steps are taken, they divide the ring as
// evenly as steps of one length can, and come by no tag twice. The first 256 are in slots of their own.
const shardStep = 10_125

// shardTag returns the tag of a shard of a key, whose own tag is that of shard 0. It does not depend on how many there
// are, so that a shard stays where it is when others are added.
func shardTag(home uint32, shard int) uint32 {
	if shard == 0 {
		return home
	}
	r := slotRing()
	return uint32(r.tags[(int(r.places[home])+shard*shardStep)%tags])
}

// slotOfTag returns the slot of the keys that have a tag: CRC-16 of its digits, by the polynomial of XMODEM.
func slotOfTag(tag uint32) uint16 {
	crc := uint16(0)
	for _, c := range appendTag(nil, tag) {
		crc ^= uint16(c) << 8
		for range 8 {
			high := crc & 0x8000
			crc <<= 1
			if high != 0 {
				crc ^= 0x1021
			}
		}
	}
	return crc % tags
}
