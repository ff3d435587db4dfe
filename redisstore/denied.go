package redisstore

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// Denied cache. What the store said cannot pass yet is refused here until it can, at most for maxDenied: a caller who
// keeps asking costs the server one call a second. Whether it can pass is counted from sending, so that the server, which
// decided later, would have refused as well; when to try again is counted from the answer, so that it is never early.
//
// It is exact but for refunds, resets and raised limits that other processes make within that time. Those that go
// through this store forget what it was told. Only what can be told from the refusal itself is kept: of plain buckets, whose
// state comes with it, and of fixed windows, in which nothing changes before they end.

const (
	maxDenied    = time.Second
	deniedShards = 64
	deniedKeys   = 1024 // of a shard
)

// denied remembers, for a bucket, the smallest cost that was refused last.
type denied struct {
	seed   maphash.Seed
	forgot atomic.Int64 // how often anything was, so that an answer on its way is not remembered after
	live   atomic.Int64 // refusals that are remembered
	shards [deniedShards]deniedShard
}

type deniedShard struct {
	mu   sync.Mutex
	keys map[string]refusal
}

// refusal is what a server said: at is its clock, sent and told are this process's.
type refusal struct {
	limit              *compiled
	cost               int64
	at                 int64 // µs
	sent, told, passes int64 // ns since the start; passes: when the cost can pass, at most maxDenied after sent
	state              algo.State
	decision           tidegate.Decision // of a fixed window
}

func (d *denied) init() {
	d.seed = maphash.MakeSeed()
}

// clock is this process's clock, in ns since the store was made.
func (s *Store) clock() int64 {
	if s.inject != nil {
		return s.inject() * int64(time.Microsecond)
	}
	return int64(s.elapsed())
}

func (d *denied) shard(key string) *deniedShard {
	return &d.shards[maphash.String(d.seed, key)%deniedShards]
}

// cacheable reports whether the take is one that the cache may refuse.
func cacheable(items []item) bool {
	if len(items) != 1 || items[0].limit.tail == "" && items[0].limit.params.Kind != algo.Fixed {
		return false
	}
	c := items[0].charge
	return c.Cost > 0 && c.MaxWait <= 0 && c.ID == "" && !c.Shadow
}

// refuse returns the decision on a take that cannot pass, if that is known.
func (d *denied) refuse(it *item, now int64) (tidegate.Decision, bool) {
	sh := d.shard(it.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, ok := sh.keys[it.key]
	c := it.charge
	if !ok || r.limit != it.limit || c.Cost < r.cost || c.Cost > it.limit.params.Capacity {
		return tidegate.Decision{}, false
	}
	if now >= r.passes || now < r.told {
		d.delete(sh, it.key)
		return tidegate.Decision{}, false
	}
	if it.limit.tail == "" {
		return r.since(now, c.Cost)
	}
	p := it.limit.params
	at := r.at + (now-r.told)/int64(time.Microsecond)
	st := r.state
	p.Load(&st, at, algo.Window{})
	v := p.Check(&st, algo.Request{Cost: c.Cost}, at, algo.Window{})
	if v.OK {
		return tidegate.Decision{}, false
	}
	remaining, reset := p.Describe(&st, at, algo.Window{})
	out := decide(it, false, p.Capacity, remaining, v.Retry, reset, 0)
	out.Source = tidegate.SourceDeniedCache
	return out, true
}

// since returns what the server said of the same cost, less the time that has passed since.
func (r *refusal) since(now, cost int64) (tidegate.Decision, bool) {
	if cost != r.cost {
		return tidegate.Decision{}, false
	}
	out := r.decision
	passed := time.Duration(now - r.told)
	if out.RetryAfter <= passed {
		return tidegate.Decision{}, false
	}
	out.RetryAfter -= passed
	out.ResetAfter = max(0, out.ResetAfter-passed)
	out.Source = tidegate.SourceDeniedCache
	return out, true
}

// note remembers a refusal by a call that was sent when forgot was as given.
func (d *denied) note(it *item, r refusal, retry time.Duration, forgot int64) {
	if retry <= 0 || retry == tidegate.Never || it.key == "" {
		return
	}
	r.limit, r.cost = it.limit, it.charge.Cost
	r.passes = r.sent + int64(min(retry, maxDenied))
	sh := d.shard(it.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if d.forgot.Load() != forgot || r.passes <= r.told {
		return
	}
	if sh.keys == nil {
		sh.keys = map[string]refusal{}
	}
	if _, ok := sh.keys[it.key]; !ok {
		if len(sh.keys) >= deniedKeys {
			for key := range sh.keys { // any: it is only asked for once more
				d.delete(sh, key)
				break
			}
		}
		d.live.Add(1)
	}
	sh.keys[strings.Clone(it.key)] = r // which may be a part of the text of a whole take
}

// empty reports whether nothing is remembered.
func (d *denied) empty() bool { return d.live.Load() == 0 }

// drop forgets a bucket that is not as the server said any more, so that it is asked anew.
func (d *denied) drop(key string) {
	if d.empty() {
		return
	}
	sh := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d.delete(sh, key)
}

func (d *denied) delete(sh *deniedShard, key string) {
	if _, ok := sh.keys[key]; ok {
		delete(sh.keys, key)
		d.live.Add(-1)
	}
}

// forget forgets a bucket that may have room now, and keeps what is on its way from being remembered.
func (d *denied) forget(key string) {
	d.forgot.Add(1)
	sh := d.shard(key) // even if nothing is remembered yet: somebody may be about to
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d.delete(sh, key)
}
