package redisstore

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// place is a key of a charge and where a cluster keeps its buckets.
type place struct {
	key  string
	slot int64
	node int // of the cluster's Nodes
}

// slotOf returns the slot of a key of Redis.
func slotOf(t *testing.T, clu *redistest.Cluster, key string) int64 {
	t.Helper()
	slot, _ := command(t, clu.Nodes[0], "CLUSTER", "KEYSLOT", key).(int64)
	return slot
}

// clusterKeys returns the keys that match the pattern, and the node of each.
func clusterKeys(t *testing.T, clu *redistest.Cluster, pattern string) map[string]int {
	t.Helper()
	keys := map[string]int{}
	for i, n := range clu.Nodes {
		for _, k := range storedKeys(t, n, pattern) {
			keys[k] = i
		}
	}
	return keys
}

// places returns n keys of charges in slots of their own, in turn on the first, second and third node.
func places(t *testing.T, clu *redistest.Cluster, s *Store, n int) []place {
	t.Helper()
	byNode := make([][]place, len(clu.Nodes))
	seen := map[int64]bool{}
	for i := 0; ; i++ {
		rule, key := "place", "k"+strconv.Itoa(i)
		mustTake(t, s, newCharge(t, rule, key, "10/1000h", 1))
		for k, node := range clusterKeys(t, clu, "*}"+rule+"/*") {
			if slot := slotOf(t, clu, k); !seen[slot] {
				seen[slot] = true
				byNode[node] = append(byNode[node], place{key, slot, node})
			}
			command(t, clu.Nodes[node], "DEL", k)
		}
		var all []place
		for j := range n {
			if list := byNode[j%len(byNode)]; j/len(byNode) < len(list) {
				all = append(all, list[j/len(byNode)])
			}
		}
		if len(all) == n {
			return all
		}
	}
}

func TestCluster(t *testing.T) {
	clu := redistest.StartCluster(t)
	var hook countingHook
	s := openStore(t, clu.URL(), &Config{Hooks: []redis.Hook{&hook}})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: clu.Addrs[:1], ReadOnly: true, RouteRandomly: true})
	made := storeOn(t, client, nil)
	ps := places(t, clu, s, 9)
	ctx := context.Background()

	t.Run("keys over all nodes", func(t *testing.T) {
		for _, s := range []*Store{s, made} {
			for i := range 200 {
				c := newCharge(t, "spread", "user:"+strconv.Itoa(i), "2/1000h", 1)
				for n, want := range []bool{true, true, false} {
					if d := mustTake(t, s, c)[0]; d.Allowed != want {
						t.Fatalf("key %d, take %d: %+v", i, n, d)
					}
				}
				if err := s.Reset(ctx, []tidegate.Charge{c}); err != nil {
					t.Fatal(err)
				}
				mustTake(t, s, c)
			}
			perNode := make([]int, len(clu.Nodes))
			for k, node := range clusterKeys(t, clu, "*}spread/*") {
				perNode[node]++
				command(t, clu.Nodes[node], "DEL", k)
			}
			if slices.Min(perNode) < 30 {
				t.Errorf("the nodes have %v keys", perNode)
			}
		}
	})

	t.Run("limits of one key", func(t *testing.T) {
		var charges []tidegate.Charge
		for _, k := range kinds {
			if !k.cold() {
				charges = append(charges, newCharge(t, "one "+k.name, "user:1", k.limit, 2))
			}
		}
		for i := range charges {
			charges[i].ID = "" // only the permits need theirs
			if charges[i].Limit.Algorithm == tidegate.Concurrency {
				charges[i].ID = "permit"
			}
		}
		mustTake(t, s, charges...)
		slots := map[int64]bool{}
		for k := range clusterKeys(t, clu, "*}one%20*") {
			slots[slotOf(t, clu, k)] = true
		}
		if len(slots) != 1 {
			t.Errorf("they are in %d slots", len(slots))
		}
		charges[3].Cost = 9 // above what is left
		if n := hook.counted(func() { mustTake(t, s, charges...) }); n != 1 {
			t.Errorf("%d commands", n)
		}
		for i := range charges {
			if n := remaining(t, s, charges[i]); n != 8 {
				t.Errorf("%s: %d remain after a refusal, not 8", charges[i].Rule, n)
			}
		}
	})

	across := acrossSlots{clu: clu, store: s, other: made, places: ps}
	t.Run("across slots", across.takes)
	t.Run("across slots at random", across.random)
	t.Run("reservations across slots", across.reservations)
	t.Run("permits across slots", across.permits)
	t.Run("callers that go away", across.cancelled)
	t.Run("a node that does not answer", across.silentNode)

	t.Run("slot of the caller's choice", func(t *testing.T) {
		var hook countingHook
		one := openStore(t, clu.URL(), &Config{Prefix: "one:", Hooks: []redis.Hook{&hook}, Slot: func(*tidegate.Charge) string { return "all" }})
		var charges []tidegate.Charge
		for _, p := range ps {
			charges = append(charges, newCharge(t, "chosen", p.key, "10/1000h", 1))
		}
		mustTake(t, one, charges...)
		if n := hook.counted(func() { mustTake(t, one, charges...) }); n != 1 {
			t.Errorf("%d commands for one take", n)
		}
		slots := map[int64]bool{}
		keys := clusterKeys(t, clu, "one:*")
		for k := range keys {
			slots[slotOf(t, clu, k)] = true
		}
		if len(slots) != 1 || len(keys) != len(ps) {
			t.Errorf("%d keys are in %d slots", len(keys), len(slots))
		}
	})
}
