package algo

import (
	"math/rand/v2"
	"testing"
)

// checkDivisor compares a division with the language's own, around the multiples of the divisor, where a wrong one shows.
func checkDivisor(t *testing.T, d, n int64) {
	t.Helper()
	const end = 1 << 53
	by := newDivisor(d)
	for _, n := range []int64{n, n - n%d, n - n%d - 1, n - n%d + d - 1, 0, end - 1, end - 1 - (end-1)%d, end - 2 - (end-1)%d} {
		if n >= 0 && n < end && by.div(n) != n/d {
			t.Fatalf("%d / %d is %d instead of %d", n, d, by.div(n), n/d)
		}
	}
}

func TestDivisor(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	for d := int64(1); d < 1<<14; d++ {
		checkDivisor(t, d, r.Int64N(1<<53))
	}
	for bits := range 53 {
		for _, d := range []int64{1 << bits, 1<<bits - 1, 1<<bits + 1} {
			if d > 0 {
				checkDivisor(t, d, r.Int64N(1<<53))
			}
		}
	}
	for range 1_000_000 {
		checkDivisor(t, 1+r.Int64N(1<<(1+r.IntN(53))-1), r.Int64N(1<<53))
	}
}

func FuzzDivisor(f *testing.F) {
	f.Add(int64(1), int64(1<<53-1))
	f.Add(int64(1_000_000), int64(1_796_025_600_123_456))
	f.Add(int64(1<<53-1), int64(1<<53-1))
	f.Fuzz(func(t *testing.T, d, n int64) {
		const end = 1 << 53
		d, n = int64(uint64(d)%end), int64(uint64(n)%end)
		checkDivisor(t, max(1, d), n)
	})
}
