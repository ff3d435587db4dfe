package storetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// broken is a store that breaks a promise, and the group or case that must catch it.
type broken struct {
	name, caughtBy string
	make           func(s *faulty)
}

// faulty is a store between the suite and a good one, with something in between.
type faulty struct {
	tidegate.Store
	clock   func(time.Time) time.Time
	take    func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error)
	settle  func(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error
	renew   func(ctx context.Context, id string, charges []tidegate.Charge) error
	release func(ctx context.Context, id string, charges []tidegate.Charge) error
	reset   func(ctx context.Context, charges []tidegate.Charge) error
	close   func() error
}

func newFaulty(now func() time.Time, change func(*faulty)) *faulty {
	f := &faulty{clock: func(t time.Time) time.Time { return t }}
	f.Store = memstore.New(&memstore.Config{Now: func() time.Time { return f.clock(now()) }})
	f.take, f.settle, f.renew, f.release = f.Store.Take, f.Store.Settle, f.Store.Renew, f.Store.Release
	f.reset, f.close = f.Store.Reset, f.Store.Close
	change(f)
	return f
}

func (f *faulty) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	return f.take(ctx, charges, dst)
}

func (f *faulty) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	return f.settle(ctx, id, charges, cost)
}

func (f *faulty) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	return f.renew(ctx, id, charges)
}

func (f *faulty) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	return f.release(ctx, id, charges)
}

func (f *faulty) Reset(ctx context.Context, charges []tidegate.Charge) error {
	return f.reset(ctx, charges)
}

func (f *faulty) Close() error { return f.close() }

// asking changes the charges before they reach the store.
func asking(change func(*tidegate.Charge)) func(*faulty) {
	return func(f *faulty) {
		changed := func(charges []tidegate.Charge) []tidegate.Charge {
			charges = slices.Clone(charges)
			for i := range charges {
				if charges[i].Limit != nil {
					change(&charges[i])
				}
			}
			return charges
		}
		f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
			n := len(dst)
			dst, err := f.Store.Take(ctx, changed(charges), dst)
			for i := range dst[n:] {
				dst[n+i].Rule = charges[i].Rule
			}
			return dst, err
		}
		f.settle = func(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
			return f.Store.Settle(ctx, id, changed(charges), cost)
		}
	}
}

// telling changes the decisions on their way back.
func telling(change func(*tidegate.Charge, *tidegate.Decision)) func(*faulty) {
	return func(f *faulty) {
		f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
			n := len(dst)
			dst, err := f.Store.Take(ctx, charges, dst)
			for i := range dst[n:] {
				change(&charges[i], &dst[n+i])
			}
			return dst, err
		}
	}
}

// clocked changes the time that the store is told.
func clocked(change func(time.Time) time.Time) func(*faulty) {
	return func(f *faulty) { f.clock = change }
}

// oneByOne takes each charge alone.
func oneByOne(stop bool) func(*faulty) {
	return func(f *faulty) {
		f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
			for i := range charges {
				c := charges[i]
				if stop && i > 0 && !dst[len(dst)-1].Allowed {
					c.Cost = 0
				}
				var err error
				if dst, err = f.Store.Take(ctx, []tidegate.Charge{c}, dst); err != nil {
					return dst, err
				}
			}
			return dst, nil
		}
	}
}

// forgetful resets a bucket that nobody has charged for a while.
func forgetful(after time.Duration) func(*faulty) {
	return func(f *faulty) {
		last := map[string]time.Time{}
		f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
			now, err := f.Now(ctx)
			if err != nil {
				return dst, err
			}
			for i := range charges {
				if t, ok := last[charges[i].Rule]; ok && now.Sub(t) >= after {
					if err := f.Store.Reset(ctx, charges[i:i+1]); err != nil {
						return dst, err
					}
				}
				last[charges[i].Rule] = now
			}
			return f.Store.Take(ctx, charges, dst)
		}
	}
}

func brokenStores() []broken {
	return []broken{
		{"a peek charges", "cost/peek", asking(func(c *tidegate.Charge) { c.Cost = max(c.Cost, 1) })},
		{"a denial charges", "cost/denial", func(f *faulty) {
			f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
				n := len(dst)
				dst, err := f.Store.Take(ctx, charges, dst)
				for i := range dst[n:] {
					if c := charges[i]; !dst[n+i].Allowed && c.Limit.Algorithm != tidegate.Concurrency {
						c.Cost = 1
						_, _ = f.Store.Take(ctx, []tidegate.Charge{c}, nil)
					}
				}
				return dst, err
			}
		}},
		{"a cost is cut to the capacity", "cost/above capacity", asking(func(c *tidegate.Charge) { c.Cost = min(c.Cost, c.Limit.Capacity()) })},
		{"a refund is ignored", "cost/refund", asking(func(c *tidegate.Charge) { c.Cost = max(c.Cost, 0) })},
		{"a refund is told as refused", "cost/refund", telling(func(c *tidegate.Charge, d *tidegate.Decision) { d.Allowed = d.Allowed && c.Cost >= 0 })},
		{"a cost is always 1", "cost/n", asking(func(c *tidegate.Charge) { c.Cost = min(c.Cost, 1) })},

		{"retry is early", "exactness/retry", telling(func(_ *tidegate.Charge, d *tidegate.Decision) {
			if d.RetryAfter > us && d.RetryAfter != tidegate.Never {
				d.RetryAfter -= us
			}
		})},
		{"retry is late", "exactness/retry", telling(func(_ *tidegate.Charge, d *tidegate.Decision) {
			if d.RetryAfter > 0 && d.RetryAfter != tidegate.Never {
				d.RetryAfter += us
			}
		})},
		{"retry is in milliseconds", "exactness/retry", telling(func(_ *tidegate.Charge, d *tidegate.Decision) {
			if d.RetryAfter != tidegate.Never {
				d.RetryAfter = d.RetryAfter.Truncate(ms)
			}
		})},
		{"never is a number", "cost/above capacity", telling(func(_ *tidegate.Charge, d *tidegate.Decision) {
			d.RetryAfter = min(d.RetryAfter, 24*time.Hour)
		})},
		{"reset is early", "exactness/reset", telling(func(_ *tidegate.Charge, d *tidegate.Decision) { d.ResetAfter = max(0, d.ResetAfter-us) })},
		{"reset is late", "exactness/reset", telling(func(_ *tidegate.Charge, d *tidegate.Decision) {
			if d.ResetAfter > 0 {
				d.ResetAfter += us
			}
		})},
		{"remaining is one less", "exactness/remaining", telling(func(_ *tidegate.Charge, d *tidegate.Decision) {
			if d.Allowed && d.Remaining > 1 {
				d.Remaining--
			}
		})},
		{"remaining is that of before", "decisions/token bucket", telling(func(c *tidegate.Charge, d *tidegate.Decision) {
			if d.Allowed {
				d.Remaining = min(d.Limit, d.Remaining+c.Cost)
			}
		})},
		{"delay is not told", "decisions/leaky bucket with a queue", telling(func(_ *tidegate.Charge, d *tidegate.Decision) { d.Delay = 0 })},

		{"a clock of milliseconds", "exactness/arithmetic", clocked(func(t time.Time) time.Time { return t.Truncate(ms) })},
		{"a clock of seconds", "faults/whole seconds", clocked(func(t time.Time) time.Time { return t.Truncate(sec) })},
		{"a clock that is fast", "bounds/upper", clocked(func(t time.Time) time.Time { return start.Add(t.Sub(start) / 100 * 101) })},
		{"a clock that is slow", "bounds/lower", clocked(func(t time.Time) time.Time { return start.Add(t.Sub(start) / 100 * 99) })},
		{"forgotten after a minute", "faults/full again every minute", forgetful(time.Minute)},
		{"forgotten after 15 days", "calendar", forgetful(15 * day)},
		{"a month of 30 days", "calendar", asking(func(c *tidegate.Charge) {
			if c.Limit.Calendar == tidegate.CalendarMonth {
				c.Limit = &tidegate.Limit{Rate: c.Limit.Rate, Per: 30 * day, Algorithm: tidegate.FixedWindow}
			}
		})},
		{"a day of 24 hours", "calendar", asking(func(c *tidegate.Charge) {
			if c.Limit.Calendar == tidegate.CalendarDay && c.Limit.Zone == "Europe/Vienna" {
				c.Limit = &tidegate.Limit{Rate: c.Limit.Rate, Calendar: tidegate.CalendarDay, Zone: "Africa/Lagos", Algorithm: tidegate.FixedWindow}
			}
		})},
		{"a log that is a window", "bounds/interval", asking(func(c *tidegate.Charge) {
			if c.Limit.Algorithm == tidegate.SlidingLog {
				c.Limit = &tidegate.Limit{Rate: c.Limit.Rate, Per: c.Limit.Per, Algorithm: tidegate.FixedWindow}
			}
		})},
		{"a sliding window that is fixed", "bounds/slices", asking(func(c *tidegate.Charge) {
			if c.Limit.Algorithm == tidegate.SlidingWindow {
				c.Limit = &tidegate.Limit{Rate: c.Limit.Rate, Per: c.Limit.Per, Algorithm: tidegate.FixedWindow}
			}
		})},
		{"no even spacing", "bounds/spacing", asking(func(c *tidegate.Charge) {
			if c.Limit.Algorithm == tidegate.LeakyBucket {
				c.Limit = &tidegate.Limit{Rate: c.Limit.Rate, Per: c.Limit.Per, Burst: c.Limit.Queue + 1}
			}
		})},
		{"no warm-up", "decisions/warm-up", asking(func(c *tidegate.Charge) {
			if c.Limit.Warmup > 0 {
				l := *c.Limit
				l.Warmup = 0
				c.Limit = &l
			}
		})},

		{"each charge for itself", "several", oneByOne(false)},
		{"no charge after a refusal", "several", oneByOne(true)},
		{"a shadow that refuses", "several", asking(func(c *tidegate.Charge) { c.Shadow = false })},
		{"a shadow that never charges", "several", asking(func(c *tidegate.Charge) {
			if c.Shadow {
				c.Cost = 0
			}
		})},
		{"everything in shadow", "several", asking(func(c *tidegate.Charge) { c.Shadow = true })},
		{"decisions in reverse", "several", func(f *faulty) {
			f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
				dst, err := f.Store.Take(ctx, charges, dst)
				slices.Reverse(dst)
				return dst, err
			}
		}},

		{"versions are ignored", "change", asking(func(c *tidegate.Charge) { c.Version = 0 })},
		{"the latest take wins", "change", func(f *faulty) {
			n := int64(0)
			asking(func(c *tidegate.Charge) { n++; c.Version = n })(f)
		}},
		{"a change empties the bucket", "change", func(f *faulty) {
			seen := map[string]int64{}
			take := f.take
			f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
				for _, c := range charges {
					if v, ok := seen[c.Rule]; ok && v != c.Version {
						_ = f.Store.Reset(ctx, []tidegate.Charge{c})
					}
					seen[c.Rule] = c.Version
				}
				return take(ctx, charges, dst)
			}
		}},
		{"a changed limit is not taken up", "change", func(f *faulty) {
			first := map[string]*tidegate.Limit{}
			asking(func(c *tidegate.Charge) {
				if first[c.Rule] == nil {
					first[c.Rule] = c.Limit
				}
				c.Limit = first[c.Rule]
			})(f)
		}},

		{"a clock that never goes back", "clock/stall", func(f *faulty) {
			var mu sync.Mutex
			var last time.Time
			f.clock = func(t time.Time) time.Time {
				mu.Lock()
				defer mu.Unlock()
				if t.After(last) {
					last = t
				}
				return last
			}
		}},
		{"a clock that counts what it goes back", "clock/back", func(f *faulty) {
			var mu sync.Mutex
			last, off := time.Time{}, time.Duration(0)
			f.clock = func(t time.Time) time.Time {
				mu.Lock()
				defer mu.Unlock()
				if t.Before(last) {
					off += 2 * last.Sub(t)
				}
				last = t
				return t.Add(off)
			}
		}},

		{"no waiting", "reserve", asking(func(c *tidegate.Charge) { c.MaxWait = 0 })},
		{"waiting without bounds", "reserve", asking(func(c *tidegate.Charge) {
			if c.MaxWait > 0 {
				c.MaxWait = 1000 * time.Hour
			}
		})},
		{"a hold for ever", "settle/hold", asking(func(c *tidegate.Charge) { c.Hold = 100 * 365 * day })},
		{"no hold", "settle/rest", asking(func(c *tidegate.Charge) { c.Hold = 0 })},
		{"a settle that always succeeds", "settle/once", func(f *faulty) {
			f.settle = func(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
				if err := f.Store.Settle(ctx, id, charges, cost); !errors.Is(err, tidegate.ErrUnknownID) {
					return err
				}
				return nil
			}
		}},
		{"a settle that only cancels", "settle/rest", func(f *faulty) {
			f.settle = func(ctx context.Context, id string, charges []tidegate.Charge, _ int64) error {
				return f.Store.Settle(ctx, id, charges, 0)
			}
		}},
		{"a settle without excess", "settle/excess", func(f *faulty) {
			f.settle = func(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
				return f.Store.Settle(ctx, id, charges, min(cost, 6))
			}
		}},
		{"a settle that does not look at the keys", "settle/other keys", func(f *faulty) {
			made := map[string][]tidegate.Charge{}
			f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
				made[charges[0].ID] = slices.Clone(charges)
				return f.Store.Take(ctx, charges, dst)
			}
			f.settle = func(ctx context.Context, id string, _ []tidegate.Charge, cost int64) error {
				return f.Store.Settle(ctx, id, made[id], cost)
			}
		}},

		{"a release that does nothing", "permits", func(f *faulty) {
			f.release = func(context.Context, string, []tidegate.Charge) error { return nil }
		}},
		{"a renew that does nothing", "permits", func(f *faulty) {
			f.renew = func(context.Context, string, []tidegate.Charge) error { return nil }
		}},
		{"permits that never end", "permits", asking(func(c *tidegate.Charge) {
			if c.Limit.Algorithm == tidegate.Concurrency {
				l := *c.Limit
				l.TTL = 24 * time.Hour
				c.Limit = &l
			}
		})},

		{"names joined by a dash", "keys", asking(func(c *tidegate.Charge) { c.Rule, c.Key = "", c.Rule+"_"+c.Key })},
		{"names joined by NUL", "keys", asking(func(c *tidegate.Charge) { c.Rule, c.Key = "", c.Rule+"\x00"+c.Key })},
		{"names in lower case", "keys", asking(func(c *tidegate.Charge) { c.Rule, c.Key = strings.ToLower(c.Rule), strings.ToLower(c.Key) })},
		{"names made valid", "keys", asking(func(c *tidegate.Charge) { c.Key = strings.ToValidUTF8(c.Key, "\ufffd") })},
		{"names cut at 200", "keys", asking(func(c *tidegate.Charge) { c.Key = c.Key[:min(len(c.Key), 200)] })},
		{"names without blanks", "keys", asking(func(c *tidegate.Charge) { c.Key = strings.TrimSpace(c.Key) })},
		{"the rule is no part of the name", "keys", asking(func(c *tidegate.Charge) { c.Rule = "" })},

		{"a context that is not looked at", "calls", func(f *faulty) {
			f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
				return f.Store.Take(context.WithoutCancel(ctx), charges, dst)
			}
		}},
		{"a context that is looked at too late", "calls", func(f *faulty) {
			f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
				ds, err := f.Store.Take(context.WithoutCancel(ctx), charges, dst)
				if ctx.Err() != nil {
					return dst, ctx.Err()
				}
				return ds, err
			}
		}},
		{"a denial that is an error", "calls", func(f *faulty) {
			f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
				ds, err := f.Store.Take(ctx, charges, dst)
				if err == nil && len(ds) > 0 && !ds[len(ds)-1].Allowed {
					return dst, &tidegate.StoreError{Op: "take", Err: errors.New("denied")}
				}
				return ds, err
			}
		}},
		{"decisions instead of those before", "calls", func(f *faulty) {
			f.take = func(ctx context.Context, charges []tidegate.Charge, _ []tidegate.Decision) ([]tidegate.Decision, error) {
				return f.Store.Take(ctx, charges, nil)
			}
		}},
		{"open after Close", "calls", func(f *faulty) { f.close = func() error { return nil } }},
		{"a reset that does nothing", "calls", func(f *faulty) {
			f.reset = func(context.Context, []tidegate.Charge) error { return nil }
		}},
		{"decided on an earlier look", "concurrent", func(f *faulty) {
			// Several callers are let in on the strength of one look at what remains.
			f.take = func(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
				look := slices.Clone(charges)
				for i := range look {
					look[i].Cost = 0
				}
				ds, err := f.Store.Take(ctx, look, nil)
				if err != nil {
					return dst, err
				}
				runtime.Gosched()
				if dst, err = f.Store.Take(ctx, charges, dst); err == nil {
					for i := range ds {
						dst[len(dst)-len(ds)+i].Allowed = ds[i].Allowed
					}
				}
				return dst, err
			}
		}},
	}
}
