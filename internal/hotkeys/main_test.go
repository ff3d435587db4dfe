package hotkeys

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A tracker starts nothing.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func open(tb testing.TB, cfg Config) *Tracker {
	tb.Helper()
	t, err := New(&cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// keysOf returns the keys of entries.
func keysOf(es []Entry) []string {
	ks := make([]string, len(es))
	for i, e := range es {
		ks[i] = e.Key
	}
	return ks
}

const minute = time.Minute
