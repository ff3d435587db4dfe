package redisstore

import (
	"slices"
	"testing"
)

// The shards of a key lie in slots of their own, as evenly over the nodes of a cluster as steps of one length can, wherever
// the key's own slot is.
func TestShardsAreSpreadOverSlots(t *testing.T) {
	const most = 256
	counts := []int{2, 3, 4, 8, 16, 64, most}
	nodes := []int{2, 3, 4, 6, 10}
	every := uint32(5)
	if raceDetector {
		every = 31
	}
	var seen [tags]uint32 // by which tag each slot was seen last, plus 1
	for home := uint32(0); home < tags; home += every {
		perNode := [11][10]int{}
		for i := range most {
			tag := shardTag(home, i)
			if tag >= tags || i == 0 && tag != home {
				t.Fatalf("shard %d of tag %04x has tag %04x", i, home, tag)
			}
			slot := slotOfTag(tag)
			if seen[slot] == home+1 {
				t.Fatalf("two of the first %d shards of tag %04x are in slot %d", i+1, home, slot)
			}
			seen[slot] = home + 1
			for _, n := range nodes {
				perNode[n][int(slot)*n/tags]++
			}
			if !slices.Contains(counts, i+1) {
				continue
			}
			for _, n := range nodes {
				least, largest := slices.Min(perNode[n][:n]), slices.Max(perNode[n][:n])
				if fair := (i + n) / n; largest > fair+3 || i+1 <= 16 && largest > fair+1 || i >= 64 && least < fair-4 {
					t.Fatalf("of %d shards of tag %04x the %d nodes have %v", i+1, home, n, perNode[n][:n])
				}
			}
		}
	}
}

// Processes of different releases must find the same buckets.
func TestShardTagsDoNotChange(t *testing.T) {
	for _, test := range []struct {
		home  uint32
		shard int
		want  uint32
	}{
		{0, 0, 0}, {0x3fff, 0, 0x3fff}, {0, 1, 0x0ea1}, {0, 2, 0x0e4a}, {0, 255, 0x33ad},
		{0x1f3a, 1, 0x04e3}, {0x1f3a, 7, 0x2013}, {0x3fff, 3, 0x0139},
	} {
		if got := shardTag(test.home, test.shard); got != test.want {
			t.Errorf("shard %d of tag %04x has tag %04x, not %04x", test.shard, test.home, got, test.want)
		}
	}
}
