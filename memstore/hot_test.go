package memstore

import (
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Five million keys come once each, fifty times as many as there is room for, and one is asked for again and again, far above
// its limit. It is not forgotten in favour of those that nobody asks for: what it lets pass is what the limit lets pass.
func TestHotKeyStays(t *testing.T) {
	const apart = 10 * time.Microsecond
	for _, c := range []struct {
		limit    string
		burst    int64
		every    time.Duration
		distinct int
		most     int
		again    int64 // how often it may have been forgotten all the same
	}{
		{"50/s burst 50", 50, 20 * time.Millisecond, 1_000_000, 20_000, 0}, // the others are idle after 20 ms
		{"50/h burst 50", 50, 72 * time.Second, 1_000_000, 20_000, 0},      // they are not, but have used little
		{"30/h burst 1", 1, 2 * time.Minute, 5_000_000, 100_000, 2},        // they have used as much, and now and then two samples fall between two asks
	} {
		t.Run(c.limit, func(t *testing.T) {
			distinct, most := c.distinct, c.most
			if raceDetector {
				distinct /= 20
			}
			var empty runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&empty)
			s, clock := open(t, Config{MaxKeys: most, SweepEvery: -1})
			l := limit(t, c.limit)
			start := clock.now()
			var passed int64
			for n := range distinct {
				take(t, s, l, "item"+strconv.Itoa(n), 1)
				if n%10 == 0 && take(t, s, l, "hot", 1).Allowed {
					passed++
				}
				clock.advance(apart)
			}
			want := c.burst + int64((clock.now().Sub(start)-1)/c.every)
			if passed < want || passed > want+c.again*c.burst {
				t.Errorf("%d passed, want %d and at most %d times a burst more", passed, want, c.again)
			}
			wantKeys(t, s, int64(most), int64(most))
			var full runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&full)
			if per := (int64(full.HeapAlloc) - int64(empty.HeapAlloc)) / int64(most); per > 100 {
				t.Errorf("%d bytes for each of %d keys", per, most)
			}
		})
	}
}
