package downstream

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Under a thousand callers, no more calls are tried at once than may be, one ramp begins, and each change follows the one before.
func TestThousandCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trials = 7
		var changes []Change
		b, err := New(&Config{
			MinimumCalls: 50, HalfOpenCalls: trials, OpenTime: time.Second, Ramp: 2 * time.Second,
			Changed: func(c Change) { changes = append(changes, c) },
		})
		if err != nil {
			t.Fatal(err)
		}
		var down atomic.Bool
		var trying, most, began atomic.Int64
		down.Store(true)
		var callers sync.WaitGroup
		for n := range 1000 {
			callers.Go(func() {
				for range 400 {
					if c, retry := b.Allow(); c.OK() {
						trial := b.Status().State == HalfOpen
						if trial {
							began.Add(1)
							if now := trying.Add(1); now > most.Load() {
								most.Store(now)
							}
						}
						time.Sleep(time.Duration(1+n%10) * time.Millisecond)
						if trial {
							trying.Add(-1)
						}
						if down.Load() {
							c.Record(time.Millisecond, Failed)
						} else {
							c.Record(time.Millisecond, Succeeded)
						}
					} else if retry <= 0 {
						t.Error("told to ask again at once")
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		time.Sleep(2500 * time.Millisecond)
		down.Store(false)
		callers.Wait()
		if most.Load() > trials {
			t.Errorf("%d calls were tried at once", most.Load())
		}
		if n := began.Load(); n > 3*trials {
			t.Errorf("%d calls began half-open, in two trials that failed and one that went well", n)
		}
		last := Closed
		ramps := 0
		for _, c := range changes {
			if c.From != last {
				t.Errorf("%v follows %v", c, last)
			}
			if last = c.To; last == Ramping {
				ramps++
			}
		}
		if ramps != 1 || last == Open || b.Status().State == Open {
			t.Errorf("%d ramps: %v", ramps, changes)
		}
	})
}

// Allow takes no lock and allocates nothing while all is well.
func TestAllowAllocatesNothing(t *testing.T) {
	b, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	c, _ := b.Allow()
	if f := b.Factor(0.2); !c.OK() || f != 1 {
		t.Error(c, f)
	}
	b.mu.Unlock()
	if n := testing.AllocsPerRun(1000, func() {
		c, _ := b.Allow()
		c.Record(time.Millisecond, Succeeded)
		b.Record(time.Millisecond, Succeeded)
		b.Take(true)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAllow(b *testing.B) {
	br, err := New(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		br.Allow()
	}
}

func BenchmarkAllowAndRecord(b *testing.B) {
	br, err := New(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		c, _ := br.Allow()
		c.Record(time.Millisecond, Succeeded)
	}
}
