package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

func TestShardsInACluster(t *testing.T) {
	clu := redistest.StartCluster(t)
	var hook countingHook
	s := openStore(t, clu.URL(), &Config{Hooks: []redis.Hook{&hook}})
	other := openStore(t, clu.URL(), nil)
	ctx := context.Background()
	const long = "/9000h fixed-window shards "
	mustTake(t, s, newCharge(t, "first", "k", "1000"+long+"6", 1))

	t.Run("slots of tags", func(t *testing.T) {
		for tag := uint32(0); tag < tags; tag += 97 {
			if got, want := int64(slotOfTag(tag)), slotOf(t, clu, fmt.Sprintf("tidegate:{%04x}r/k", tag)); got != want {
				t.Fatalf("tag %04x is taken to be in slot %d, and is in %d", tag, got, want)
			}
		}
	})

	t.Run("over all nodes", func(t *testing.T) {
		for _, key := range []string{"a", "b", "c"} {
			c := newCharge(t, "spread "+key, key, "600"+long+"6", 1)
			for range 500 {
				if !mustTake(t, s, c)[0].Allowed {
					t.Fatal("refused")
				}
			}
			perNode, slots := make([]int, len(clu.Nodes)), map[int64]bool{}
			for k, node := range clusterKeys(t, clu, "*}spread%20"+key+"/*") {
				perNode[node]++
				slots[slotOf(t, clu, k)] = true
			}
			if slices.Min(perNode) == 0 || slices.Max(perNode) > 3 || len(slots) != 6 {
				t.Errorf("the nodes have %v shards, in %d slots", perNode, len(slots))
			}
			if n := inUse(t, s, c); n != 500 {
				t.Errorf("%d are in use, want 500", n)
			}
			mustTake(t, other, c)
			if n := inUse(t, s, c); n != 501 {
				t.Errorf("%d are in use after a take of another process, want 501", n)
			}
			if n := hook.counted(func() {
				if err := s.Reset(ctx, []tidegate.Charge{c}); err != nil {
					t.Error(err)
				}
			}); n != 6 {
				t.Errorf("a reset is %d commands", n)
			}
			if n := len(clusterKeys(t, clu, "*}spread%20"+key+"/*")); n != 0 {
				t.Errorf("%d buckets are left by a reset", n)
			}
		}
	})

	t.Run("reservations", func(t *testing.T) {
		c := newCharge(t, "reserve", "k", "203"+long+"4", 2)
		named := []tidegate.Charge{newCharge(t, "reserve", "k", "203"+long+"4", 0)}
		var ids []string
		for range 200 {
			r := c
			r.ID, r.Hold = rand.Text(), time.Hour
			if mustTake(t, s, r)[0].Allowed {
				ids = append(ids, r.ID)
			}
		}
		if n := inUse(t, s, c); len(ids) < 95 || n != int64(2*len(ids)) {
			t.Fatalf("%d reservations of 2 have %d in use", len(ids), n)
		}
		for i, id := range ids {
			if err := other.Settle(ctx, id, named, int64(i%2)); err != nil {
				t.Fatal(err)
			}
			if err := s.Settle(ctx, id, named, 0); !errors.Is(err, tidegate.ErrUnknownID) {
				t.Fatalf("settled twice: %v", err)
			}
		}
		if n := inUse(t, s, c); n != int64(len(ids)/2) {
			t.Errorf("%d are in use after settling %d for 1, and as many for nothing", n, len(ids)/2)
		}
	})

	t.Run("together", func(t *testing.T) {
		pinned := openStore(t, clu.URL(), &Config{
			Prefix: "pinned:", Hooks: []redis.Hook{&hook}, Slot: func(*tidegate.Charge) string { return "all" },
		})
		for _, test := range []struct {
			store *Store
			keys  [2]string
		}{{s, [2]string{"k", "k"}}, {pinned, [2]string{"k", "another"}}} {
			a, b := newCharge(t, "together a", test.keys[0], "600"+long+"6", 1), newCharge(t, "together b", test.keys[1], "90"+long+"6", 1)
			mustTake(t, test.store, a, b)
			for range 20 {
				if n := hook.counted(func() { mustTake(t, test.store, a, b) }); n != 1 {
					t.Fatalf("%q: equally many shards of two limits: %d commands", test.keys, n)
				}
			}
		}
	})

	t.Run("several", func(t *testing.T) {
		all := []tidegate.Charge{
			newCharge(t, "several a", "k", "80"+long+"4", 1),
			newCharge(t, "several b", "key", "70"+long+"7", 1),
			newCharge(t, "several c", "k", "90/9000h fixed-window", 1), // in the slot of shard 0 of the first
			newCharge(t, "several d", "kk", "1000/9000h fixed-window", 1),
		}
		sums := func() (n []int64) {
			for _, c := range all {
				if c.Limit.Shards > 0 {
					n = append(n, inUse(t, s, c))
				} else {
					n = append(n, c.Limit.Rate-remaining(t, s, c))
				}
			}
			return n
		}
		n, ids := int64(0), map[string]bool{}
		for i := range 150 {
			id := ""
			if i%3 == 0 {
				id = rand.Text()
			}
			for j := range all {
				all[j].ID, all[j].Hold = id, time.Hour
			}
			if tidegate.Combine(all, mustTake(t, s, all...)).Allowed {
				n++
				if id != "" {
					ids[id] = true
				}
			}
		}
		if got := sums(); n < 60 || n > 70 || slices.Min(got) != n || slices.Max(got) != n {
			t.Fatalf("%d passed, and in use are %v", n, got)
		}
		for id := range ids {
			if err := other.Settle(ctx, id, all, 0); err != nil {
				t.Fatal(err)
			}
			n--
		}
		if got := sums(); slices.Min(got) != n || slices.Max(got) != n {
			t.Errorf("%d were not given back, and in use are %v", n, got)
		}
	})

	t.Run("refunds", func(t *testing.T) {
		c := newCharge(t, "refund", "k", "20"+long+"2", 5)
		for range 4 {
			mustTake(t, s, c)
		}
		c.Cost = -3
		for i := range int64(2) {
			mustTake(t, s, c)
			if n := inUse(t, s, c); n != 20-3*(i+1) {
				t.Errorf("%d are in use after refund %d", n, i+1)
			}
		}
	})
}
