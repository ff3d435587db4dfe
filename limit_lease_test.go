package tidegate_test

import (
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

func TestValidateLease(t *testing.T) {
	bucket := func(change func(l *tidegate.Limit)) tidegate.Limit {
		return limit("600/s burst 100 lease 50ms", change)
	}
	for name, test := range map[string]struct {
		limit tidegate.Limit
		want  string
	}{
		"shortest":            {bucket(func(l *tidegate.Limit) { l.Lease = time.Millisecond }), ""},
		"shorter":             {bucket(func(l *tidegate.Limit) { l.Lease = time.Millisecond - time.Microsecond }), "a lease of 999µs"},
		"longest":             {bucket(func(l *tidegate.Limit) { l.Lease = 10 * time.Second }), ""},
		"longer":              {bucket(func(l *tidegate.Limit) { l.Lease = 10*time.Second + time.Microsecond }), "a lease of 10.000001s"},
		"negative":            {bucket(func(l *tidegate.Limit) { l.Lease = -time.Second }), "a lease of -1s"},
		"not in microseconds": {bucket(func(l *tidegate.Limit) { l.Lease++ }), "a lease of 50.000001ms"},
		"smallest burst":      {bucket(func(l *tidegate.Limit) { l.Burst = 10 }), ""},
		"smaller":             {bucket(func(l *tidegate.Limit) { l.Burst = 9 }), "a lease on a burst of 9"},
		"burst by default":    {bucket(func(l *tidegate.Limit) { l.Burst, l.Rate = 0, 9 }), "a lease on a burst of 9"},
		"smallest shards":     {bucket(func(l *tidegate.Limit) { l.Burst, l.Shards = 89, 8 }), ""},
		"ten a shard":         {bucket(func(l *tidegate.Limit) { l.Burst, l.Shards = 80, 8 }), ""},
		"nine in one of them": {bucket(func(l *tidegate.Limit) { l.Burst, l.Shards = 79, 8 }), "a burst of 9 in each of 8 shards"},
		"of one shard":        {bucket(func(l *tidegate.Limit) { l.Burst, l.Shards = 10, 1 }), ""},
		"with a warmup":       {bucket(func(l *tidegate.Limit) { l.Warmup = 8 * time.Second }), ""},
		"of a window":         {limit("100/s fixed-window", func(l *tidegate.Limit) { l.Lease = time.Second }), "lease has no meaning for fixed-window"},
		"of none":             {limit("none", func(l *tidegate.Limit) { l.Lease = time.Second }), "lease has no meaning for none"},
	} {
		t.Run(name, func(t *testing.T) { checkProblem(t, test.limit, test.want) })
	}
}
