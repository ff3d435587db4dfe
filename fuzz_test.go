package tidegate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// FuzzParseLimit: whatever the text, there is a limit or an error of one line; a limit is normalized and good, is written
// as a text that reads back to it, and its tick is a power of ten that divides its period.
func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{
		"", "10", "10/s", "10/s burst 20", "1/2s", "600/min leaky-bucket queue 5", "100/min sliding-window slices 6",
		"100/1500us sliding-log", "1000000/month tz Asia/Shanghai fixed-window", "10/week tz UTC", "10/day fixed-window",
		"20 concurrent ttl 1m30s", "none", "unlimited", "unlimited until tomorrow", "100/s burst 300 warmup 16s",
		"0.5/s", "10/s bursts 3", "-1/s", "1e400/s", "99999999999999999999/s", "10/s lease 50ms", "10/day tz Local",
		"9223372036854775807/s burst 9223372036854775807", "10/s leaky-bucket queue 9223372036854775807", "10/1000µs",
		"600/s burst 100 lease 1500us shards 8", "10/month shards 3", "10/s shards 1", "1/18250day burst 2 shards 2", "10/s shards 256",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := tidegate.ParseLimit(text)
		if err != nil {
			checkMessage(t, text, err)
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: more than a line: %v", text, err)
			}
			return
		}
		if l != l.Normalize() {
			t.Errorf("%q is read as %+v, which is not normalized", text, plain(l))
		}
		again, err := tidegate.ParseLimit(l.String())
		if err != nil || again != l {
			t.Errorf("%q is read as %+v, written as %q, and read as %+v (%v)", text, plain(l), l, plain(again), err)
		}
		tick, err := l.Resolution()
		if err != nil {
			t.Fatalf("%q is accepted but not valid: %v", text, err)
		}
		us := tick / time.Microsecond
		for us > 1 && us%10 == 0 {
			us /= 10
		}
		if us != 1 || tick%time.Microsecond != 0 {
			t.Errorf("%q has a tick of %v", text, tick)
		}
		if l.Per%tick != 0 || tick > max(l.Per/1000, time.Microsecond) {
			t.Errorf("%q has a tick of %v in a period of %v", text, tick, l.Per)
		}
		var sum int64
		for i := range max(1, l.Shards) {
			shard := l.Shard(i)
			sum += shard.Capacity()
			if err := shard.Validate(); err != nil {
				t.Errorf("%q: shard %d, %v: %v", text, i, shard, err)
			}
		}
		if l.Shards > 1 && sum != l.Capacity() {
			t.Errorf("%q: the shards hold %d, the whole %d", text, sum, l.Capacity())
		}
		if c := l.Capacity(); c < 1 && l.Algorithm != tidegate.None {
			t.Errorf("%q has a capacity of %d", text, c)
		}
	})
}
