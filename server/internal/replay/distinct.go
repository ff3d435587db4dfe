package replay

import (
	"math"

	"github.com/cespare/xxhash/v2"
)

// distinct counts different texts: exactly up to maxHashes, and from then on by those whose hash is below a threshold, which
// is halved whenever there are too many. Of n hashes kept, the estimate is off by about 1/√n: a thousandth.
type distinct struct {
	below  uint64 // 0 for no threshold
	hashes map[uint64]struct{}
}

const maxHashes = 1 << 20

func (d *distinct) add(text string) {
	h := xxhash.Sum64String(text)
	if d.below != 0 && h >= d.below {
		return
	}
	if d.hashes == nil {
		d.hashes = map[uint64]struct{}{}
	}
	d.hashes[h] = struct{}{}
	for len(d.hashes) > maxHashes {
		if d.below == 0 {
			d.below = 1 << 63
		} else {
			d.below /= 2
		}
		for h := range d.hashes {
			if h >= d.below {
				delete(d.hashes, h)
			}
		}
	}
}

// count returns how many there were, and whether that is exact.
func (d *distinct) count() (n int64, exact bool) {
	if d.below == 0 {
		return int64(len(d.hashes)), true
	}
	return int64(float64(len(d.hashes)) * (math.MaxUint64 / float64(d.below))), false
}
