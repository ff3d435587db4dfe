package etcdrules

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/internal/etcdtest"
	"github.com/tidegate-go/tidegate/rules/source"
)

// Where what lies beside the rules was deleted by hand, versions began anew from the revisions of etcd, far below those that replicas
// and buckets had seen: the limits of a replica that started then counted as older ones.
func TestFaultLostInfo(t *testing.T) {
	srv, ctx := etcdtest.Start(t), context.Background()
	r := open(t, srv.URL("tidegate/rules"), nil)
	remove := func() {
		t.Helper()
		if _, err := r.client.Delete(ctx, r.infoKey()); err != nil {
			t.Fatal(err)
		}
	}
	pull := func() source.Document {
		t.Helper()
		var docs [2]source.Document
		for i, reader := range []*Rules{r, open(t, srv.URL("tidegate/rules"), nil)} { // which has looked before, and one that has not
			var err error
			if docs[i], err = reader.Pull(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if docs[0].Version != docs[1].Version || docs[0].By != docs[1].By {
			t.Errorf("two replicas see %+v and %+v", docs[0], docs[1])
		}
		return docs[1]
	}
	mustPush(t, r, "first", 0)
	second := mustPush(t, r, "second", source.AnyVersion)
	remove()
	if doc := pull(); doc.Version != second || doc.By != "anna" {
		t.Errorf("after the loss: %+v, want version %d", doc, second)
	}
	put(t, r, "third")
	third := pull()
	if third.Version <= second || third.Version > second+10 || third.By != "" {
		t.Errorf("after another program's write: %+v, want a version soon after %d", third, second)
	}
	put(t, r, "fourth")
	fourth := pull()
	if fourth.Version <= third.Version {
		t.Errorf("version %d after %d", fourth.Version, third.Version)
	}
	fifth := mustPush(t, r, "fifth", fourth.Version)
	if doc := pull(); doc.Version != fifth || fifth <= fourth.Version {
		t.Errorf("version %d after %d: %+v", fifth, fourth.Version, doc)
	}
	// Garbage is a loss like any.
	if _, err := r.client.Put(ctx, r.infoKey(), "{"); err != nil {
		t.Fatal(err)
	}
	if doc := pull(); doc.Version != fifth {
		t.Errorf("with garbage beside: %+v, want version %d", doc, fifth)
	}
	// Once etcd has forgotten, there is nothing to go on from but its revision; a push mends it.
	remove()
	put(t, r, "sixth")
	latest, err := r.get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Compact(ctx, latest.store); err != nil {
		t.Fatal(err)
	}
	if doc, err := open(t, srv.URL("tidegate/rules"), nil).Pull(ctx); err != nil || doc.Version != latest.revision {
		t.Errorf("once it is compacted: %+v, %v, want version %d", doc, err, latest.revision)
	}
	before := time.Now().UnixMicro()
	if seventh := mustPush(t, open(t, srv.URL("tidegate/rules"), nil), "seventh", source.AnyVersion); seventh < before {
		t.Errorf("version %d of a push at %d", seventh, before)
	}
}

// Rules that were never pushed cost one search for each change, not one for each look.
func TestLostInfoIsSoughtOnce(t *testing.T) {
	srv := etcdtest.Start(t)
	r := open(t, srv.URL("k"), nil)
	for i := range 2*lookBack + 1 {
		put(t, r, string(rune('a'+i)))
	}
	now, err := r.get(t.Context())
	if err != nil || now.doc.Version != now.revision || r.lost.revision != now.revision {
		t.Errorf("%+v, %v", now, err)
	}
	r.lost.in.Version, r.lost.pushed = 1000, now.revision // as if it had been found
	if again, err := r.get(t.Context()); err != nil || again.doc.Version != 1000 {
		t.Errorf("it is sought again: %+v, %v", again, err)
	}
}

// A push whose answer was lost is repeated with the version that it expected, and was a conflict with itself.
func TestFaultRepeatedPush(t *testing.T) {
	srv, ctx := etcdtest.Start(t), context.Background()
	r := open(t, srv.URL("k"), nil)
	first := mustPush(t, r, "first", 0)
	if v := mustPush(t, r, "first", 0); v != first {
		t.Errorf("the first push once more: version %d, want %d", v, first)
	}
	second := mustPush(t, r, "second", first)
	if v := mustPush(t, r, "second", first); v != second {
		t.Errorf("once more: version %d, want %d", v, second)
	}
	for _, c := range []struct {
		text   string
		expect int64
	}{{"other", first}, {"second", 0}, {"second", first - 1}, {"first", first}} {
		if v, err := r.Push(ctx, []byte(c.text), "bob", c.expect); err == nil {
			t.Errorf("%+v: version %d", c, v)
		}
	}
	put(t, r, "third")
	if v, err := r.Push(ctx, []byte("third"), "bob", second); err == nil {
		t.Errorf("what another program wrote is not this push: version %d", v)
	}
}
