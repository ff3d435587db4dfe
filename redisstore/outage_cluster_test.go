package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/resilience"
)

// TestClusterMovesUnderTheWrapper: a slot that moves (ASK while it does, MOVED when it has) is no outage: each take is decided
// by the store, once.
func TestClusterMovesUnderTheWrapper(t *testing.T) {
	clu := redistest.StartCluster(t)
	m := newMover(t, clu)
	p := places(t, clu, openStore(t, clu.URL(), nil), 1)[0]
	g := guard(t, clu.URL(), nil)
	c := newCharge(t, "way", p.key, "10/1000h", 1)
	g.returns(peekOf(c))
	left := int64(10)
	take := func(what string) {
		t.Helper()
		left--
		if d := mustTake(t, g, c)[0]; d.Source != tidegate.SourceStore || d.Remaining != left {
			t.Errorf("%s: %+v, want %d", what, d, left)
		}
	}
	take("before")
	to := (p.node + 1) % len(clu.Nodes)
	m.begin(t, p.slot, p.node, to)
	m.migrate(t, p.slot, p.node, to, "")
	take("on its way")
	take("on its way")
	wantAnswered(t, clu.Nodes[p.node], "ASK")
	m.end(t, p.slot, to)
	take("after")
	take("after")
	wantAnswered(t, clu.Nodes[p.node], "MOVED")
	if st := g.Status(); st.State != resilience.Shared || g.logged() != "" {
		t.Errorf("%+v\n%s", st, g.logged())
	}
}

// TestClusterLosesANode: callers get decisions throughout: of the slots that are served by the store, of the others by the
// fallback, and by that of all once the cluster is down (CLUSTERDOWN). The store decides again when the node is back, and is
// charged with what was admitted meanwhile.
func TestClusterLosesANode(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	clu := redistest.StartCluster(t)
	g := guard(t, clu.URL(), nil)
	c := newCharge(t, "api", "k", "100000/s burst 1000", 1)
	spent := newCharge(t, "daily", "k", "1000/1000h", 100)
	mustTake(t, g, spent)
	g.returns(c)
	g.hasBeaten()
	var keys []string // of all nodes
	for _, p := range places(t, clu, openStore(t, clu.URL(), nil), 6) {
		keys = append(keys, p.key)
	}
	dead := clu.Nodes[0] // one without the table, so that heartbeats are answered by the others
	for _, node := range clusterKeys(t, clu, "*%=replicas") {
		dead = clu.Nodes[(node+1)%len(clu.Nodes)]
	}
	dead.Kill()
	g.ask(c, 8, 500*time.Millisecond) // until the others have noticed, some slots are served
	eventually(t, 20*time.Second, "the cluster is down", func() error {
		for _, n := range clu.Nodes {
			if n == dead {
				continue
			}
			reply, err := n.Do("CLUSTER", "INFO")
			if err != nil {
				return err
			}
			if !strings.Contains(fmt.Sprint(reply), "cluster_state:fail") {
				return fmt.Errorf("%v", reply)
			}
		}
		return nil
	})
	g.goesAway(c, resilience.KindClusterDown)
	if d := mustTake(t, g, spent)[0]; d.Source != tidegate.SourceFallback || !d.Allowed {
		t.Errorf("%+v", d)
	}
	dead.Restart()
	clu.Wait(t)
	g.returns(c)
	for _, k := range keys {
		c.Key = k
		g.returns(c)
	}
	g.fewLines()
	eventually(t, 5*time.Second, "debts are paid", func() error {
		if st := g.Status(); st.Debts > 0 {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	// The node that was killed has lost its data, which may have been that of this key.
	if n := remaining(t, g, spent); n > 800 {
		t.Errorf("%d remain", n)
	}
}
