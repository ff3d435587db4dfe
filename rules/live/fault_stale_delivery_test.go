package live

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/tidegate-go/tidegate/rules/source"
)

// editable is a scripted source that programs can change.
type editable struct {
	*scripted
	*Memory
}

func (e *editable) Name() string { return e.scripted.Name() }

func (e *editable) Watch(ctx context.Context, deliver func(source.Document, error)) error {
	return e.scripted.Watch(ctx, deliver)
}

func newEditable(t *testing.T, first string) (*editable, *Live, func() int64) {
	t.Helper()
	src := &editable{newScripted(), NewMemory([]byte(first), "test")}
	e := newEngine(t, text(1))
	l, err := New(e, src, nil)
	do(t, err)
	run(t, l)
	<-src.starts
	return src, l, func() int64 { synctest.Wait(); return limit(e) }
}

// A watch read the rules, a change was made by way of the API and put in place at once, and only then came what the watch
// had read: it undid the change, until the next look.
func TestFaultStaleDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, l, limit := newEditable(t, text(1))
		src.send(text(1), 10)
		synctest.Wait()
		version, err := l.Replace(t.Context(), []byte(text(2)), "anna", source.AnyVersion)
		if err != nil || limit() != 2 {
			t.Fatalf("limit %d: %v", limit(), err)
		}
		src.send(text(1), 10) // which it had read before
		if n := limit(); n != 2 || l.Status().Version != version {
			t.Fatalf("the change was undone: the limit is %d, %+v", n, l.Status())
		}
		<-src.starts // the source is asked anew, and what it says now is so
		src.send(text(2), version)
		src.send(text(3), version+1)
		if n := limit(); n != 3 {
			t.Errorf("a later change: the limit is %d", n)
		}
		// Another's push of what was before is a change like any.
		src.send(text(1), version+2)
		if n := limit(); n != 1 || l.Status().Version != version+2 {
			t.Errorf("an older text of a newer version: the limit is %d, %+v", n, l.Status())
		}
		for i := range 5 { // so that the next is newer than all above
			_, err := src.Push(t.Context(), []byte(text(100+i)), "", source.AnyVersion)
			do(t, err)
		}
		if _, err := l.Replace(t.Context(), []byte(text(4)), "anna", source.AnyVersion); err != nil {
			t.Fatal(err)
		}
		src.send(bad, version+3)
		if n := limit(); n != 4 || l.Status().Problem != nil {
			t.Errorf("what was bad before the change is told of: the limit is %d, %+v", n, l.Status())
		}
	})
}

// A server that lost its data, and whose versions begin anew, lower, does not keep replicas from its rules.
func TestFaultStaleDeliveryIsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, l, limit := newEditable(t, text(1))
		if _, err := l.Replace(t.Context(), []byte(text(2)), "anna", 0); err != nil {
			t.Fatal(err)
		}
		src.send(text(3), 5) // by itself it could be an old one
		synctest.Wait()
		<-src.starts
		if n := limit(); n != 2 {
			t.Errorf("the limit is %d", n)
		}
		src.send(text(3), 5) // read after the change: it is what is there
		if n := limit(); n != 3 || l.Status().Version != 5 {
			t.Errorf("the limit is %d, %+v", n, l.Status())
		}
		src.send(text(3), 4) // the same text, of the version by which it can be replaced
		if limit(); l.Status().Version != 4 {
			t.Errorf("%+v", l.Status())
		}
	})
}
