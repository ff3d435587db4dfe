package envoy

import (
	"slices"
	"sync"

	"github.com/tidegate-go/tidegate"
)

// asked is a descriptor of a request, and what was found for it.
type asked struct {
	limit    *limit // nil: nothing limits it
	charge   int    // among the charges; -1 if there is none
	cost     int64
	replaced bool
}

// work is the room that a request is decided in. It is used again and again.
type work struct {
	asked     []asked
	charges   []tidegate.Charge
	decisions []tidegate.Decision
}

var works = sync.Pool{New: func() any { return new(work) }}

func (w *work) release() {
	clear(w.asked)
	clear(w.charges)
	clear(w.decisions)
	w.asked, w.charges, w.decisions = w.asked[:0], w.charges[:0], w.decisions[:0]
	works.Put(w)
}

// none says that nothing limits so many descriptors.
func (w *work) none(n int) {
	for range n {
		w.asked = append(w.asked, asked{charge: -1})
	}
}

// replace takes out the limits that others of the request replace. What was replaced replaces all the same: of x, which
// replaces y, which replaces z, x alone is left. What is unlimited replaces too, and is never replaced.
func (w *work) replace() {
	for i := range w.asked {
		l := w.asked[i].limit
		if l == nil {
			continue
		}
		for _, name := range l.replaces {
			for j := range w.asked {
				if other := w.asked[j].limit; other != nil && !other.unlimited && other.name == name {
					w.asked[j].replaced = true
				}
			}
		}
	}
	for i := range w.asked {
		if w.asked[i].replaced {
			w.asked[i].limit = nil
		}
	}
}

// exceeded reports whether the store refused the charge of a descriptor.
func (w *work) exceeded(a *asked) bool { return a.charge >= 0 && !w.decisions[a.charge].Allowed }

// charged reports whether what was asked was charged: nothing that enforces refused.
func (w *work) charged() bool {
	for i := range w.charges {
		if !w.charges[i].Shadow && !w.decisions[i].Allowed {
			return false
		}
	}
	return true
}

// quotas are the numbers of the descriptors whose quota is exceeded.
func (w *work) quotas(quota func(*limit) bool) (numbers []int) {
	for i := range w.asked {
		if a := &w.asked[i]; w.exceeded(a) && quota(a.limit) {
			numbers = append(numbers, i)
		}
	}
	return slices.Clip(numbers)
}
