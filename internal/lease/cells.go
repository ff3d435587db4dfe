package lease

import (
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
)

// add makes a cell for a charge whose bucket has none, or returns nil if a newer limit has. The shard is locked.
func (l *Layer) add(c *tidegate.Charge) *cell {
	sh := &l.shards[l.index(c)]
	name := bucket{c.Rule, c.Key}
	if sh.cells[name] != nil {
		return nil
	}
	if len(sh.cells) >= l.room {
		l.evict(sh)
	}
	x := newCell(c)
	// The caller's strings may be parts of something large that shall not stay for the sake of a name.
	sh.cells[bucket{strings.Clone(c.Rule), strings.Clone(c.Key)}] = x
	if l.count.Add(1) == 1 {
		l.sweepLater()
	}
	return x
}

// drop forgets a cell, whose tokens lapse, as will those that a flight brings for it. The shard is locked.
func (l *Layer) drop(sh *shard, name bucket, x *cell) {
	sh.stats.Lapsed += x.left
	x.left = 0
	delete(sh.cells, name)
	l.count.Add(-1)
}

// evict makes room for a cell: of a few, the first that is idle goes, else the one whose tokens lapse first.
func (l *Layer) evict(sh *shard) {
	const few = 8
	now := l.now()
	var first *cell
	var firstName bucket
	n := 0
	for name, x := range sh.cells { // in an order that the map chooses at random
		if first == nil || x.until < first.until {
			first, firstName = x, name
		}
		if n++; n == few || x.idle(now) {
			if x.idle(now) {
				first, firstName = x, name
			}
			break
		}
	}
	l.drop(sh, firstName, first)
}

// sweepLater lets one timer for all cells run while there are any.
func (l *Layer) sweepLater() {
	l.sweeping.Lock()
	defer l.sweeping.Unlock()
	switch {
	case l.closed:
	case l.timer == nil:
		l.timer = time.AfterFunc(sweepEvery, l.sweep)
	default:
		l.timer.Reset(sweepEvery)
	}
}

// sweep forgets the cells that are idle, and takes note of what has lapsed.
func (l *Layer) sweep() {
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		now := l.now()
		for name, x := range sh.cells {
			if x.idle(now) {
				l.drop(sh, name, x)
			} else if now >= x.until {
				sh.stats.Lapsed += x.left
				x.left = 0
			}
		}
		sh.mu.Unlock()
	}
	if l.count.Load() > 0 {
		l.sweepLater()
	}
}
