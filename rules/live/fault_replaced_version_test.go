package live

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidegate-go/tidegate/rules/source"
)

// What counts after the end of a limit, and what the audit says was before, were those of the rules in place, although a later
// version was replaced.
func TestFaultReplaceOfAnotherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, l, limit := newEditable(t, text(1))
		src.send(text(1), 0)
		synctest.Wait()
		second, err := src.Push(t.Context(), []byte(text(2)), "bob", 0) // by another replica, which this one has not seen yet
		do(t, err)
		_, err = l.Replace(t.Context(), []byte("version: 1\nrules:\n  - name: r\n    limit: 9/h until 1h\n"), "anna", second)
		if err != nil || limit() != 9 {
			t.Fatalf("limit %d: %v", limit(), err)
		}
		if then := l.engine.Set().Rule("r").Limit.Then.Rate; then != 2 {
			t.Errorf("then %d/h, want that of the version that was replaced", then)
		}
		changes := l.Changes()
		if len(changes) != 2 || changes[0].By != "anna" || !strings.Contains(changes[0].Before, "limit: 2/h") ||
			changes[1].By != "bob" || !strings.Contains(changes[1].Before, "limit: 1/h") {
			t.Errorf("the audit: %+v", changes)
		}
		// One who replaces nothing that is known gets the conflict, and the replica has the later rules all the same.
		third, err := src.Push(t.Context(), []byte(text(3)), "bob", source.AnyVersion)
		do(t, err)
		_, err = l.Replace(t.Context(), []byte(text(4)), "anna", second)
		if c, ok := errors.AsType[*source.ConflictError](err); !ok || c.Current != third || limit() != 3 {
			t.Errorf("limit %d: %v", limit(), err)
		}
		// What is bad at the source has no limits to go back to: those in place have.
		fourth, err := src.Push(t.Context(), []byte(bad), "bob", third)
		do(t, err)
		_, err = l.Replace(t.Context(), []byte("version: 1\nrules:\n  - name: r\n    limit: 9/h until 1h\n"), "anna", fourth)
		if err != nil || l.engine.Set().Rule("r").Limit.Then.Rate != 3 || l.Status().Problem != nil {
			t.Errorf("%+v: %v", l.engine.Set().Rule("r"), err)
		}
	})
}

// Who replaces whatever is there has the limits of that to go back to, also when another is faster.
func TestFaultReplaceAnyVersionRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory([]byte(text(1)), "test")
		src := &racing{Memory: memory}
		e := newEngine(t, text(1))
		l, err := New(e, src, nil)
		do(t, err)
		_, err = l.Replace(t.Context(), []byte("version: 1\nrules:\n  - name: r\n    limit: 99/h until 1h\n"), "anna", source.AnyVersion)
		if err != nil || e.Set().Rule("r").Limit.Then.Rate != 3 {
			t.Errorf("then %+v: %v", e.Set().Rule("r"), err)
		}
		src.races = -100 // for ever
		_, err = l.Replace(t.Context(), []byte(text(5)), "anna", source.AnyVersion)
		if _, ok := errors.AsType[*source.ConflictError](err); !ok {
			t.Errorf("while others push all the time: %v", err)
		}
	})
}

// racing is a memory whose first two pushes come after another's.
type racing struct {
	*Memory

	races int
}

func (r *racing) Push(ctx context.Context, t []byte, by string, expect int64) (int64, error) {
	if r.races < 2 {
		r.races++
		if _, err := r.Memory.Push(ctx, []byte(text(1+r.races)), "bob", source.AnyVersion); err != nil {
			return 0, err
		}
	}
	return r.Memory.Push(ctx, t, by, expect)
}
