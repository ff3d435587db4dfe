package redisstore

// The dispatcher's buckets: those that somebody waits for, or that are in a batch in flight. A waiter finds its buckets by their
// names once, when it comes; from then on it holds on to them.

// bucket is what the dispatcher knows of a bucket.
type bucket struct {
	key       string
	holders   int       // waiters that hold on to it
	flying    int       // batches in flight that it is in: two at most
	batch     uint64    // the latest of them
	use       *use      // its use in that one
	behind    []*waiter // those that wait for a batch in flight
	charges   int       // theirs, of takes of several buckets
	overtaken bool      // of two batches, the second passed by some who wait: there is no other before these
}

// pairable reports whether the bucket is in a batch in flight, and may be in a second one.
func (b *bucket) pairable() bool { return b.flying == 1 && !b.overtaken }

// buckets are those of a dispatcher, under its lock.
type buckets struct {
	named map[string]*bucket
	most  int // that there have been since the map was made
	spare []*bucket
	uses  []*use // spare ones
}

// maxNamed is the size from which on a map is not kept once it is empty: a map does not give back what it grew to.
const maxNamed = 1 << 12

// hold finds the waiter's buckets, which it holds on to until it lets go of them.
func (bs *buckets) hold(w *waiter) {
	for i := range w.items {
		it := &w.items[i]
		if it.key == "" {
			continue
		}
		b := bs.named[it.key]
		if b == nil {
			b = bs.add(it.key)
		}
		b.holders++
		it.bucket = b
	}
}

func (bs *buckets) add(key string) (b *bucket) {
	if bs.named == nil {
		bs.named = map[string]*bucket{}
	}
	if n := len(bs.spare); n > 0 {
		b, bs.spare = bs.spare[n-1], bs.spare[:n-1]
	} else {
		b = new(bucket)
	}
	b.key = key
	bs.named[key] = b
	bs.most = max(bs.most, len(bs.named))
	return b
}

// letGo is the end of hold.
func (bs *buckets) letGo(w *waiter) {
	for i := range w.items {
		it := &w.items[i]
		if it.bucket != nil {
			bs.drop(it.bucket)
			it.bucket = nil
		}
	}
}

func (bs *buckets) drop(b *bucket) {
	if b.holders--; b.holders > 0 {
		return
	}
	delete(bs.named, b.key)
	if len(bs.named) == 0 && bs.most > maxNamed {
		bs.named, bs.most = nil, 0
	}
	*b = bucket{behind: b.behind}
	if cap(b.behind) > maxTakes {
		b.behind = nil
	}
	if len(bs.spare) < maxKeys {
		bs.spare = append(bs.spare, b)
	}
}

// claim notes that the waiter's buckets are in a batch, and returns how many were not before.
func (bs *buckets) claim(w *waiter, batch uint64) (added int) {
	for i := range w.items {
		it := &w.items[i]
		b := it.bucket
		if b == nil {
			continue
		}
		if b.flying == 0 || b.batch != batch {
			b.overtaken = b.overtaken || b.flying > 0 && len(b.behind) > 0
			b.flying++
			b.batch, b.use = batch, bs.newUse()
			added++
		}
		it.use = b.use
	}
	return added
}

func (bs *buckets) newUse() *use {
	n := len(bs.uses)
	if n == 0 {
		return new(use)
	}
	u := bs.uses[n-1]
	bs.uses = bs.uses[:n-1]
	u.over = false
	return u
}

// end notes that a use is over, unless it has been: takes share it.
func (bs *buckets) end(it *item) (ended bool) {
	u := it.use
	it.use = nil
	if u.over {
		return false
	}
	u.reset()
	u.over = true
	if it.bucket.flying--; it.bucket.flying == 0 {
		it.bucket.overtaken = false
	}
	if len(bs.uses) < 2*maxKeys {
		bs.uses = append(bs.uses, u)
	}
	return true
}

// idle reports whether none of the waiter's buckets is in flight.
func (w *waiter) idle() bool {
	for i := range w.items {
		if b := w.items[i].bucket; b != nil && b.flying > 0 {
			return false
		}
	}
	return true
}

// blocked returns the bucket for which the waiter cannot be in the batch: one that is in another. Where several are, it is the one
// that most wait for, so that those who have a bucket in common wait together. A paired batch may have buckets in common with one
// other.
func (w *waiter) blocked(batch uint64, paired bool) (at *bucket) {
	for i := range w.items {
		b := w.items[i].bucket
		switch {
		case b == nil, b.flying == 0, b.batch == batch, paired && b.pairable():
		case at == nil || len(b.behind) >= len(at.behind):
			at = b
		}
	}
	return at
}

// park puts the waiter behind the bucket.
func (b *bucket) park(w *waiter) {
	b.behind = append(b.behind, w)
	b.charges += w.together()
}

// together returns how many charges the take has, if it has several.
func (t *taking) together() int {
	if len(t.items) < 2 {
		return 0
	}
	return len(t.items)
}
