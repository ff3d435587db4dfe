package redisstore

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// mover moves slots of a cluster between its nodes.
type mover struct {
	clu *redistest.Cluster
	ids []string
}

func newMover(t *testing.T, clu *redistest.Cluster) *mover {
	t.Helper()
	m := &mover{clu: clu}
	for _, n := range clu.Nodes {
		id, _ := command(t, n, "CLUSTER", "MYID").(string)
		m.ids = append(m.ids, id)
	}
	return m
}

// begin opens a slot for its move, during which the old node asks for what it has no longer.
func (m *mover) begin(t *testing.T, slot int64, from, to int) {
	t.Helper()
	text := strconv.FormatInt(slot, 10)
	command(t, m.clu.Nodes[to], "CLUSTER", "SETSLOT", text, "IMPORTING", m.ids[from])
	command(t, m.clu.Nodes[from], "CLUSTER", "SETSLOT", text, "MIGRATING", m.ids[to])
}

// migrate moves the keys of a slot that contain the text.
func (m *mover) migrate(t *testing.T, slot int64, from, to int, text string) {
	t.Helper()
	host, port, err := net.SplitHostPort(m.clu.Addrs[to])
	if err != nil {
		t.Fatal(err)
	}
	keys, _ := command(t, m.clu.Nodes[from], "CLUSTER", "GETKEYSINSLOT", strconv.FormatInt(slot, 10), "100").([]any)
	for _, k := range keys {
		if key, _ := k.(string); strings.Contains(key, text) {
			command(t, m.clu.Nodes[from], "MIGRATE", host, port, key, "0", "5000")
		}
	}
}

// end gives the slot to its new node, which is asked first.
func (m *mover) end(t *testing.T, slot int64, to int) {
	t.Helper()
	text := strconv.FormatInt(slot, 10)
	command(t, m.clu.Nodes[to], "CLUSTER", "SETSLOT", text, "NODE", m.ids[to])
	for i, n := range m.clu.Nodes {
		if i != to {
			command(t, n, "CLUSTER", "SETSLOT", text, "NODE", m.ids[to])
		}
	}
}

// wantAnswered fails the test unless the server has answered with such an error.
func wantAnswered(t *testing.T, srv *redistest.Server, code string) {
	t.Helper()
	if text, _ := command(t, srv, "INFO", "errorstats").(string); !strings.Contains(text, "errorstat_"+code+":") {
		t.Errorf("the server has not answered %s, so that this test is none:\n%s", code, text)
	}
}

// TestClusterMoved: a slot that moves to another node is followed there, with its buckets, and each take charges once.
func TestClusterMoved(t *testing.T) {
	clu := redistest.StartCluster(t)
	s := openStore(t, clu.URL(), nil)
	m := newMover(t, clu)
	ps := places(t, clu, s, 8)
	ctx := context.Background()

	scriptCalls := func() (n int) {
		for _, node := range clu.Nodes {
			stats := commandStats(t, node)
			n += stats["get"] + stats["mget"] // each script reads its bucket once
		}
		return n
	}

	t.Run("an empty slot", func(t *testing.T) {
		p := ps[0]
		c := newCharge(t, "moved", p.key, "10/1000h", 1)
		to := (p.node + 1) % len(clu.Nodes)
		m.end(t, p.slot, to)
		command(t, clu.Nodes[to], "SCRIPT", "FLUSH")
		before := scriptCalls()
		for i := range int64(3) {
			if d := mustTake(t, s, c)[0]; d.Remaining != 9-i {
				t.Errorf("take %d: %+v", i, d)
			}
		}
		if n := scriptCalls() - before; n != 3 {
			t.Errorf("3 takes ran %d scripts", n)
		}
		wantAnswered(t, clu.Nodes[p.node], "MOVED")
		for _, node := range clusterKeys(t, clu, "*}moved/*") {
			if node != to {
				t.Errorf("the bucket is on node %d, not %d", node, to)
			}
		}
	})

	t.Run("a bucket on its way", func(t *testing.T) {
		p := ps[1]
		c := newCharge(t, "way", p.key, "10/1000h", 1)
		reserved := c
		reserved.ID, reserved.Hold = "reservation", time.Hour
		mustTake(t, s, reserved)
		to := (p.node + 1) % len(clu.Nodes)
		m.begin(t, p.slot, p.node, to)
		if d := mustTake(t, s, c)[0]; d.Remaining != 8 {
			t.Errorf("before it has left: %+v", d)
		}
		command(t, clu.Nodes[to], "SCRIPT", "FLUSH")
		m.migrate(t, p.slot, p.node, to, "")
		if d := mustTake(t, s, c)[0]; d.Remaining != 7 {
			t.Errorf("while the slot is open: %+v", d)
		}
		wantAnswered(t, clu.Nodes[p.node], "ASK")
		m.end(t, p.slot, to)
		if d := mustTake(t, s, c)[0]; d.Remaining != 6 {
			t.Errorf("after the move: %+v", d)
		}
		if err := s.Settle(ctx, reserved.ID, []tidegate.Charge{reserved}, 0); err != nil {
			t.Error(err)
		}
		if n := remaining(t, s, c); n != 7 {
			t.Errorf("%d remain, not 7", n)
		}
	})

	t.Run("two limits, one on its way", func(t *testing.T) {
		p := ps[2]
		charges := []tidegate.Charge{newCharge(t, "here", p.key, "10/1000h", 1), newCharge(t, "there", p.key, "10/1000h", 1)}
		mustTake(t, s, charges...)
		to := (p.node + 1) % len(clu.Nodes)
		m.begin(t, p.slot, p.node, to)
		m.migrate(t, p.slot, p.node, to, "}there/")
		// Neither node has both, so that none can decide; the server says so, and nothing was charged.
		_, err := s.Take(ctx, charges, nil)
		wantStoreError(t, err)
		if err != nil && !strings.Contains(err.Error(), "TRYAGAIN") {
			t.Errorf("the error is %v", err)
		}
		m.migrate(t, p.slot, p.node, to, "")
		m.end(t, p.slot, to)
		for i, d := range mustTake(t, s, charges...) {
			if d.Remaining != 8 {
				t.Errorf("charge %d: %+v", i, d)
			}
		}
	})

	t.Run("across slots of which one has moved", func(t *testing.T) {
		charges := []tidegate.Charge{newCharge(t, "across", ps[3].key, "10/1000h", 1), newCharge(t, "across", ps[4].key, "2/1000h", 1)}
		mustTake(t, s, charges...)
		m.begin(t, ps[3].slot, ps[3].node, ps[4].node)
		m.migrate(t, ps[3].slot, ps[3].node, ps[4].node, "")
		m.end(t, ps[3].slot, ps[4].node)
		for i, want := range []bool{true, false} {
			ds := mustTake(t, s, charges...)
			if !ds[0].Allowed || ds[1].Allowed != want {
				t.Errorf("take %d: %+v", i, ds)
			}
		}
		if n := remaining(t, s, charges[0]); n != 8 { // what was charged before the refusal was given back
			t.Errorf("%d remain, not 8", n)
		}
	})

	t.Run("a node that never saw the script", func(t *testing.T) {
		for _, n := range clu.Nodes {
			command(t, n, "SCRIPT", "FLUSH")
		}
		for _, p := range ps[5:] {
			c := newCharge(t, "noscript", p.key, "10/1000h", 1)
			for i := range int64(2) {
				if d := mustTake(t, s, c)[0]; d.Remaining != 9-i {
					t.Errorf("node %d, take %d: %+v", p.node, i, d)
				}
			}
		}
	})

	t.Run("a cluster that is down", func(t *testing.T) {
		for _, n := range clu.Nodes { // a slot that nobody has
			command(t, n, "CLUSTER", "DELSLOTS", strconv.FormatInt(ps[0].slot, 10))
		}
		c := newCharge(t, "down", ps[0].key, "10/1000h", 1)
		_, err := s.Take(ctx, []tidegate.Charge{c}, nil)
		wantStoreError(t, err)
	})
}
