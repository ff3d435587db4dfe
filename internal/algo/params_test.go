package algo_test

import (
	"testing"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// A lease and shards leave no trace in what a bucket remembers its limit by: turning them on or off converts nothing.
func TestCompileIgnoresLeaseAndShards(t *testing.T) {
	for with, without := range map[string]string{
		"600/s burst 100 lease 50ms":                 "600/s burst 100",
		"100/s warmup 16s lease 50ms":                "100/s warmup 16s",
		"6000/s burst 1000 lease 50ms shards 8":      "6000/s burst 1000",
		"100/min fixed-window shards 8":              "100/min fixed-window",
		"100/month shards 8":                         "100/month",
		"100/min sliding-window slices 6 shards 100": "100/min sliding-window slices 6",
	} {
		a, b := compile(t, with), compile(t, without)
		if a.Spec != b.Spec || a.Capacity != b.Capacity {
			t.Errorf("%s is kept as %q with a capacity of %d, %s as %q with %d", with, a.Spec, a.Capacity, without, b.Spec, b.Capacity)
		}
	}
}

func compile(t *testing.T, text string) *algo.Params {
	t.Helper()
	l, err := tidegate.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := algo.Compile(l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
