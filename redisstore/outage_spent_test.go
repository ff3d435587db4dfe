//go:build unix

package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/resilience"
)

// TestSpentInAnOutage: what was admitted while a server was stopped, or was dead and came back empty, is spent after.
func TestSpentInAnOutage(t *testing.T) {
	for name, f := range map[string]struct{ begin, end func(*redistest.Server) }{
		"paused": {(*redistest.Server).Pause, (*redistest.Server).Resume},
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
	} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.StartTCP(t)
			g := guard(t, srv.URL(), nil)
			c := newCharge(t, "daily", "k", "1000/day", 1)
			mustTake(t, g, c)
			g.returns(c)
			f.begin(srv)
			n := int64(0)
			for n < 50 {
				if d := mustTake(t, g, c)[0]; d.Source == tidegate.SourceFallback {
					n++
				}
			}
			f.end(srv)
			eventually(t, 5*time.Second, "debts are paid", func() error {
				if st := g.Status(); st.State != resilience.Shared || st.Debts > 0 {
					return fmt.Errorf("%+v", st)
				}
				return nil
			})
			before := remaining(t, g, c)
			// A paused server decides later what it was sent before the breaker opened.
			if before > 1000-n || before < 1000-n-20 {
				t.Errorf("%d remain of 1000 after %d", before, n)
			}
		})
	}
}

// TestPartitionLeaves950: three replicas, 1000 a day, and 50 spent while one of them, or all, could not reach the server:
// 950 are left when they can, and not what is left of a share.
func TestPartitionLeaves950(t *testing.T) {
	for name, spent := range map[string][]int{"one": {50, 0, 0}, "all": {20, 20, 10}} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.StartTCP(t)
			var gs []*guarded
			var relays []*relay
			for range spent {
				r := newRelay(t, srv.Addr)
				gs, relays = append(gs, guard(t, r.url(), nil)), append(relays, r)
			}
			eventually(t, 5*time.Second, "each knows of three", func() error {
				for _, g := range gs {
					if st := g.Status(); st.Replicas != 3 {
						return fmt.Errorf("%+v", st)
					}
				}
				return nil
			})
			c := newCharge(t, "daily", "tenant", "1000/day", 1)
			nothing := ""
			for i, g := range gs {
				if spent[i] == 0 {
					continue
				}
				relays[i].answer.Store(&nothing)
				for range spent[i] {
					if d := mustTake(t, g, c)[0]; !d.Allowed || d.Source != tidegate.SourceFallback {
						t.Fatalf("%+v", d)
					}
				}
			}
			for _, r := range relays {
				r.answer.Store(nil)
			}
			direct := openStore(t, srv.URL(), nil)
			eventually(t, 5*time.Second, "all debts are paid", func() error {
				for _, g := range gs {
					if st := g.Status(); st.State != resilience.Shared || st.Debts > 0 {
						return fmt.Errorf("%+v", st)
					}
				}
				return nil
			})
			if n := remaining(t, direct, c); n != 950 {
				t.Errorf("%d are left", n)
			}
			for _, g := range gs {
				g.fewLines()
			}
		})
	}
}
