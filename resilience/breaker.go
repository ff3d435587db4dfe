package resilience

import "sync/atomic"

// breaker counts failures in a row, and opens at so many. It knows nothing of time: whoever probes the store closes it.
// One word holds all: the generation, which each opening and closing begins anew, whether it is open, and the failures.
type breaker struct {
	word  atomic.Uint64
	limit uint64
}

const (
	failureBits = 16
	maxFailures = 1<<failureBits - 1
	openBit     = 1 << failureBits
	generation  = openBit << 1 // one
)

// begin returns the word as of which a call begins, and whether it may.
func (b *breaker) begin() (begun uint64, closed bool) {
	w := b.word.Load()
	return w, w&openBit == 0
}

// stale reports whether a call begun then says nothing about now.
func stale(begun, now uint64) bool { return begun/openBit != now/openBit || now&openBit != 0 }

// succeeded notes that a call begun then was answered.
func (b *breaker) succeeded(begun uint64) {
	for {
		w := b.word.Load()
		if w&maxFailures == 0 || stale(begun, w) || b.word.CompareAndSwap(w, w&^maxFailures) {
			return
		}
	}
}

// failed notes that a call begun then failed, and reports whether that opened the breaker.
func (b *breaker) failed(begun uint64) (opened bool) {
	for {
		w := b.word.Load()
		if stale(begun, w) {
			return false
		}
		next := w + 1
		if opened = next&maxFailures >= b.limit; opened {
			next = next&^maxFailures + generation | openBit
		}
		if b.word.CompareAndSwap(w, next) {
			return opened
		}
	}
}

// set opens or closes the breaker, and reports whether it was not before.
func (b *breaker) set(open bool) (changed bool) {
	for {
		w := b.word.Load()
		if (w&openBit != 0) == open {
			return false
		}
		next := w&^maxFailures ^ openBit + generation
		if b.word.CompareAndSwap(w, next) {
			return true
		}
	}
}
