package redisstore

import (
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// compiled is a limit of one version as the scripts are told of it.
type compiled struct {
	source  *tidegate.Limit // the pointer that it was asked by, which is compared before the value
	version int64
	params  *algo.Params
	tail    string // how the states that it writes end; empty for what the run script leaves to take

	window string // the same of a fixed window, for what the windows script leaves to take

	args []any // of a plain bucket or window, for the scripts that decide these

	shards []*compiled // of a limit that has some; those of one size are one
	larger int         // how many of them, the first ones, hold one more than the others; 0 if all hold the same

	// misses is how many more takes go past the run script, which has found buckets that it leaves alone: while
	// replicas disagree about the limit.
	misses atomic.Int32
}

// limits compiles limits, each once.
type limits struct {
	last [lastLimits]atomic.Pointer[compiled] // by the pointer that it was asked by
	mu   sync.RWMutex
	all  map[limitID]*compiled
}

// lastLimits is how many limits are found by their pointer; of two that share a place the one before is found by its value.
const lastLimits = 64

var lastSeed = maphash.MakeSeed()

func (ls *limits) place(l *tidegate.Limit) *atomic.Pointer[compiled] {
	return &ls.last[maphash.Comparable(lastSeed, l)%lastLimits]
}

type limitID struct {
	limit   tidegate.Limit
	version int64
}

// maxLimits bounds the cache for a program that makes up limits all day; it starts anew beyond.
const maxLimits = 10_000

func (ls *limits) of(c *tidegate.Charge) (*compiled, error) {
	last := ls.place(c.Limit)
	if l := last.Load(); l != nil && l.source == c.Limit && l.version == c.Version {
		return l, nil
	}
	id := limitID{*c.Limit, c.Version}
	ls.mu.RLock()
	l := ls.all[id]
	ls.mu.RUnlock()
	if l == nil {
		var err error
		if l, err = compile(c.Limit, c.Version); err != nil {
			return nil, err
		}
		ls.mu.Lock()
		if have := ls.all[id]; have != nil { // compiled by another caller meanwhile: takes of one limit are to be alike
			l = have
		} else {
			if len(ls.all) >= maxLimits || ls.all == nil {
				ls.all = map[limitID]*compiled{}
			}
			ls.all[id] = l
		}
		ls.mu.Unlock()
	}
	last.Store(l)
	return l, nil
}

func compile(limit *tidegate.Limit, version int64) (*compiled, error) {
	p, err := algo.Compile(*limit)
	if err != nil {
		return nil, err
	}
	l := &compiled{source: limit, version: version, params: p}
	if cost, gain, size, tick, ok := p.Plain(); ok {
		l.tail = "|" + strconv.FormatInt(version, 10) + "|" + p.Spec
		l.args = []any{l.tail, cost, gain, size, tick}
	}
	if n, width, ok := p.PlainWindow(); ok {
		l.window = "|" + strconv.FormatInt(version, 10) + "|" + p.Spec
		l.args = []any{l.window, n, width}
	}
	return l, l.compileShards()
}
