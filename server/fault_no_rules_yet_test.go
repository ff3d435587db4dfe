package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tidegate-go/tidegate/rules/source"
)

// late is a shared source that has no rules at first.
type late struct {
	mu   sync.Mutex
	doc  source.Document
	err  error
	news chan struct{}
}

func (*late) Name() string { return "redis" }

func (l *late) Watch(ctx context.Context, deliver func(source.Document, error)) error {
	for {
		deliver(l.Pull(ctx))
		select {
		case <-l.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *late) Pull(context.Context) (source.Document, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doc, l.err
}

func (l *late) Push(_ context.Context, text []byte, by string, expect int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if expect != l.doc.Version {
		return 0, &source.ConflictError{Expected: expect, Current: l.doc.Version}
	}
	l.doc, l.err = source.Document{Text: text, Version: l.doc.Version + 1, By: by}, nil
	return l.doc.Version, nil
}

// set makes the watch deliver what the source has from now on.
func (l *late) set(text string, err error) {
	l.mu.Lock()
	l.doc.Text, l.err = []byte(text), err
	l.mu.Unlock()
	l.news <- struct{}{}
	synctest.Wait()
}

// A service of shared rules did not listen until there were some, so that it looked dead to whoever started it. It listens at once, is
// alive, and says what it is not ready for.
func TestFaultNoRulesYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, &Config{Token: testToken})
		src := &late{err: source.ErrNone, news: make(chan struct{})}
		l, err := s.LiveRules(src)
		if err != nil {
			t.Fatal(err)
		}
		s.AwaitRules()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		waits := func(forWhat string) {
			t.Helper()
			wantReply(t, call(s, http.MethodGet, "/healthz", ""), 200, `{"healthy":true}`)
			wantError(t, call(s, http.MethodGet, "/readyz", ""), 503, "no rules yet: waiting for "+forWhat)
			for _, path := range []string{"/v1/take", "/v1/peek", "/v1/acquire", "/v1/try"} {
				w := post(s, path, `{"attributes":{"key":"k"}}`)
				wantError(t, w, 503, "no rules yet: waiting for "+forWhat)
				if w.Header().Get("Retry-After") != "1" {
					t.Errorf("%s: %v", path, w.Header())
				}
			}
		}
		waits("the store")
		wg.Go(func() { _ = l.Run(ctx) })
		synctest.Wait()
		waits("some to be pushed to the store")
		src.set("", errors.New("away"))
		waits("the store to answer: away")
		src.set("version: 1\nrules:\n  - name: r\n    limt: 1/h\n", nil)
		waits("good ones, since what the store has is bad: ")
		src.set("", source.ErrNone)
		waits("some to be pushed to the store")

		// The rules that the server began with are not told as if they counted, and the first ones can be put there over the API.
		wantReply(t, call(s, http.MethodGet, "/v1/rules", ""), 200,
			`{"version":0,"source":"store","editable":true,"edit_hint":"","yaml":"version: 1\nrules:\n","rules":[]}`)
		token := []string{"Authorization", "Bearer " + testToken}
		wantError(t, call(s, http.MethodPut, "/v1/rules", `{"rule":"example","limit":"1/s","version":0}`, token...), 404, "no rule")
		waits("some to be pushed to the store")
		wantReply(t, call(s, http.MethodPut, "/v1/rules", `{"yaml":"version: 1\nrules:\n  - {name: r, limit: 1/h}\n","version":0}`, token...), 200, `{"version":1}`)
		for i, status := range []int{200, 429} {
			if w := post(s, "/v1/take", `{"rule":"r"}`); w.Code != status {
				t.Errorf("take %d: %d %s", i+1, w.Code, w.Body)
			}
		}
		wantReply(t, call(s, http.MethodGet, "/readyz", ""), 200, `{"ready":true}`)

		// Once there were rules, they stay, whatever becomes of the source.
		src.set("", source.ErrNone)
		wantReply(t, call(s, http.MethodGet, "/readyz", ""), 200, `{"ready":true}`)
		if w := post(s, "/v1/take", `{"rule":"r"}`); w.Code != 429 {
			t.Errorf("a take when the rules are gone: %d %s", w.Code, w.Body)
		}
	})
}
