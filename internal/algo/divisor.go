package algo

import "math/bits"

// divisor divides integers below 2^53 by the same number again and again: by a multiplication with its reciprocal, which
// takes a fraction of the time of a division.
//
// With d < 2^(11+shift), the factor ⌈2^(64+shift)/d⌉ is too large by e/d, e < d, so that the product of it and n, taken
// down by 64+shift bits, is too large by n·e / (d·2^(64+shift)) < 2^53·d / (d·2^(64+shift)) ≤ 1/d: never enough to reach the
// next integer. See "Division by invariant integers using multiplication" by Granlund and Montgomery.
type divisor struct {
	factor uint64 // 0 to divide by 1, whose factor of 2^64 has no room
	shift  uint8
}

// newDivisor returns what divides by d, which is at least 1 and below 2^53.
func newDivisor(d int64) divisor {
	if d == 1 {
		return divisor{}
	}
	shift := max(0, bits.Len64(uint64(d))-11)
	q, r := bits.Div64(1<<shift, 0, uint64(d))
	if r > 0 {
		q++
	}
	return divisor{q, uint8(shift)}
}

// div returns n divided by the divisor, rounded down; n is not negative and below 2^53.
func (d divisor) div(n int64) int64 {
	if d.factor == 0 {
		return n
	}
	hi, _ := bits.Mul64(uint64(n), d.factor)
	return int64(hi >> d.shift)
}
