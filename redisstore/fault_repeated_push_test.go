package redisstore

import (
	"context"
	"errors"
	"testing"

	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/rules/source"
)

// A push whose answer was lost is repeated with the version that it expected, and was a conflict with itself.
func TestFaultRepeatedPush(t *testing.T) {
	srv := redistest.Start(t)
	r, ctx := openStore(t, srv.URL(), nil).Rules(), context.Background()
	first := mustPush(t, r, "first", 0)
	if v := mustPush(t, r, "first", 0); v != first {
		t.Errorf("the first push once more: version %d, want %d", v, first)
	}
	second := mustPush(t, r, "second", first)
	if v := mustPush(t, r, "second", first); v != second {
		t.Errorf("once more: version %d, want %d", v, second)
	}
	refused := func(text string, expect, current int64) {
		t.Helper()
		_, err := r.Push(ctx, []byte(text), "bob", expect)
		if c, ok := errors.AsType[*source.ConflictError](err); !ok || c.Current != current {
			t.Errorf("a push of %q that expects %d: %v", text, expect, err)
		}
	}
	refused("other", first, second)
	refused("second", 0, second)
	refused("second", first-1, second)
	refused("first", first, second)
	if old, err := r.History(ctx); err != nil || len(old) != 1 {
		t.Errorf("the history: %+v, %v", old, err)
	}
	// One that was written by a version before this one does not say what it replaced.
	command(t, srv, "HDEL", r.keys()[0], "former")
	refused("second", first, second)
	mustPush(t, r, "third", second)
}
