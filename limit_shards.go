package tidegate

import (
	"errors"
	"time"
)

// splits reports whether limits of the algorithm can be spread over several buckets that add up to the whole.
func (l Limit) splits() bool {
	return l.Algorithm == TokenBucket || l.Algorithm == FixedWindow || l.Algorithm == SlidingWindow
}

// Shard returns the limit of shard i, from 0 to Shards-1, of a valid limit: without Shards, and without Lease, which is
// the whole's. All shards together are the whole, exactly:
//
//   - The burst of a token bucket, the N of a window, is the K-th part of it, rounded down, and one more in the first
//     shards, as many as were lost to the rounding.
//   - A token bucket's rate stays, and its period is K times as long. All shards so refill alike, and K times N in K·Per
//     is N in Per, where a K-th part of N might not be whole.
//
// A limit without shards is its own only shard.
func (l Limit) Shard(i int) Limit {
	l = l.Normalize()
	k := int64(l.Shards)
	l.Shards, l.Lease = 0, 0
	if k < 2 {
		return l
	}
	whole := &l.Rate
	if l.Algorithm == TokenBucket {
		whole = &l.Burst
		l.Per *= time.Duration(k)
	}
	more := int64(i) < *whole%k
	*whole /= k
	if more {
		*whole++
	}
	return l
}

// checkShards holds a normalized limit to what its shards need: each must be a limit of its own.
func (l Limit) checkShards() error {
	if l.Shards < 2 {
		return nil
	}
	k := int64(l.Shards)
	switch {
	case l.Algorithm == TokenBucket && l.Burst < k:
		return limitErrorf("%d shards of a burst of %d", k, l.Burst).
			hint(`each needs at least one token, as in "10000/s burst 1000 shards 8"`)
	case l.Algorithm != TokenBucket && l.Rate < k:
		return limitErrorf("%d shards of a window of %d", k, l.Rate).
			hint(`each needs at least one, as in "10000/min fixed-window shards 8"`)
	case l.Algorithm == TokenBucket && l.Per > maxYears/time.Duration(k):
		return limitErrorf("%d shards, each of which would have %d times the period of %v", k, k, l.Per).
			hint(`the longest is 50 years: write fewer, or a shorter period, as in "10000/s burst 1000 shards 8"`)
	}
	for _, i := range []int{0, l.Shards - 1} { // one of each size
		shard := l.Shard(i)
		if err := shard.Validate(); err != nil {
			problem := err.Error()
			if le, ok := errors.AsType[*LimitError](err); ok {
				problem = le.Problem
			}
			return limitErrorf("%d shards of %v each: %s", k, shard, problem).
				hint(`write fewer, or round numbers that share factors, as in "10000/s burst 1000 shards 8"`)
		}
	}
	return nil
}
