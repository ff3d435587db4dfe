package replay

import (
	"container/heap"
	"time"
)

// passing gives the moments at which admitted requests pass, in their order: that at which a request comes, or a leaky bucket's
// delay later. What comes after a request may pass before it, so that those that wait are kept, eight bytes each; the queues of the
// buckets bound how many there are.
type passing struct {
	pass    func(time.Time)
	waiting moments
}

// until passes on all that pass up to a moment, this one included.
func (p *passing) until(at time.Time) {
	for now := at.UnixMicro(); len(p.waiting) > 0 && p.waiting[0] <= now; {
		p.pass(time.UnixMicro(heap.Pop(&p.waiting).(int64)).UTC())
	}
}

// add is told of a request that comes at a moment, no earlier than the one before it, and passes so much later.
func (p *passing) add(at time.Time, delay time.Duration) {
	p.until(at)
	if delay <= 0 {
		p.pass(at)
		return
	}
	heap.Push(&p.waiting, at.Add(delay).UnixMicro())
}

// rest passes on those that still wait.
func (p *passing) rest() {
	for len(p.waiting) > 0 {
		p.until(time.UnixMicro(p.waiting[0]))
	}
}

// moments are µs since 1970, the first of them at the top of a heap.
type moments []int64

func (m moments) Len() int           { return len(m) }
func (m moments) Less(i, j int) bool { return m[i] < m[j] }
func (m moments) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }

// Push is heap's.
func (m *moments) Push(x any) { *m = append(*m, x.(int64)) }

// Pop is heap's.
func (m *moments) Pop() any {
	old := *m
	last := old[len(old)-1]
	*m = old[:len(old)-1]
	return last
}
