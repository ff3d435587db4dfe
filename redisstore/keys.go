package redisstore

import (
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/key"
)

// tags is how many different tags there are: as many as a cluster has slots.
const tags = 1 << 14

// tag returns the part of a bucket's key that decides its slot: a hash, so that it is short and tells nothing.
func (s *Store) tag(c *tidegate.Charge) uint32 {
	slot := c.Key
	if s.cfg.Slot != nil {
		slot = s.cfg.Slot(c)
	}
	if s.cfg.KeySecret != nil {
		slot = string(key.AppendSecret(nil, s.cfg.KeySecret, "slot", slot))
	}
	h := uint32(2166136261) // FNV-1a, without the allocation of hash/fnv
	for i := range len(slot) {
		h = (h ^ uint32(slot[i])) * 16777619
	}
	return (h ^ h>>16) % tags
}

// appendPrefix appends the part of a key that comes before the bucket's name: "tidegate:{1f3a}".
func (s *Store) appendPrefix(b []byte, tag uint32) []byte {
	b = append(append(b, s.cfg.Prefix...), '{')
	return append(appendTag(b, tag), '}')
}

// appendTag appends the four digits of a tag.
func appendTag(b []byte, tag uint32) []byte {
	const hex = "0123456789abcdef"
	for shift := 12; shift >= 0; shift -= 4 {
		b = append(b, hex[tag>>shift&15])
	}
	return b
}

// bucketKey returns the key of a charge's bucket, or of one shard of it: see appendShard.
func (s *Store) bucketKey(c *tidegate.Charge, tag uint32, shard int) string {
	var space [256]byte
	return s.names.of(tag, appendShard(s.appendBucketKey(space[:0], c, tag), shard))
}

// appendBucketKey appends the key of a charge's bucket.
func (s *Store) appendBucketKey(b []byte, c *tidegate.Charge, tag uint32) []byte {
	b = s.appendPrefix(b, tag)
	if s.cfg.KeySecret != nil {
		return key.AppendSecret(b, s.cfg.KeySecret, c.Rule, c.Key)
	}
	return key.AppendBucket(b, c.Rule, c.Key)
}

// nameBuckets gives the items of a take of several charges their keys, which are parts of one text: it costs less than a text for
// each, and lives as long as any of the buckets is waited for or in flight without a pause.
func (s *Store) nameBuckets(items []item) {
	var space [1024]byte
	b := space[:0]
	var room [maxCharges]int
	ends := room[:0]
	for i := range items {
		if it := &items[i]; it.hasBucket() {
			b = s.appendBucketKey(b, it.charge, it.tag)
		}
		ends = append(ends, len(b))
	}
	text, from := string(b), 0
	for i, to := range ends {
		items[i].key = text[from:to]
		from = to
	}
}

// recordKey returns the key of what a reservation charged in a slot.
func (s *Store) recordKey(tag uint32, id string) string {
	return string(append(append(s.appendPrefix(nil, tag), "%!"...), id...))
}
