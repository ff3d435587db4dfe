package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestScreenshots writes a picture of each tab, in light and in dark, into the directory that TIDEGATE_SCREENSHOTS names:
// make screenshots.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("TIDEGATE_SCREENSHOTS")
	if dir == "" {
		t.Skip("TIDEGATE_SCREENSHOTS names no directory: run make screenshots")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f := screenshotAPI()
	p := openPage(t, f.serve(t), "")
	p.wait("document.querySelectorAll('#busiest tr').length > 2")
	select { // for the charts to have something to show
	case <-time.After(12 * time.Second):
	case <-p.ctx.Done():
	}
	p.token("token")
	prepare := map[string]func(){
		"rules": func() {
			p.rule("per-user")
			p.fill("#rules-search", "")
			p.wait("document.querySelectorAll('#rules-list tr').length > 3")
			p.fill("#edit-limit", "200/m burst 40")
			p.waitText("#diff", "200/m")
		},
		"keys": func() {
			p.wait("document.querySelectorAll('#keys-list tr').length > 0")
			p.click("#keys-list button")
			p.wait("document.querySelector('#key-state .verdict') !== null")
		},
		"try": func() {
			p.wait("document.querySelectorAll('#attributes input').length >= 2")
			p.click("#try-ask")
			p.wait("document.querySelector('#try-result .verdict') !== null")
		},
	}
	for _, tab := range []string{"overview", "rules", "keys", "changes", "try"} {
		p.click("#tab-" + tab)
		if f := prepare[tab]; f != nil {
			f()
		}
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(scheme)
			p.do(chromedp.Sleep(400 * time.Millisecond)) // to be drawn
			picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(dir, fmt.Sprintf("%s-%s.png", tab, scheme))
			if err := os.WriteFile(name, picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = context.Background
}

func screenshotAPI() *fakeAPI {
	r := func(name, limit, match string, key ...string) map[string]any { return fakeRule(name, limit, match, key...) }
	f := &fakeAPI{rules: []map[string]any{
		r("per-user", "100/m burst 20", "path is below /api/", "user"), r("per-ip", "20/s burst 40", "everything", "ip"),
		r("login", "5/m", "path is /login and method is POST", "ip"), r("exports", "2 concurrent", "path is below /exports/", "tenant"),
		r("search", "30/s burst 60", "path is /search, and the plan is one of free, trial and starter, unless the user agent is a crawler", "tenant", "user"),
	}, state: map[string]any{"shares": map[string]any{"per-user": 0.33, "per-ip": 0.34, "login": 0.31},
		"breakers": []any{map[string]any{"rule": "exports", "state": "closed", "since": time.Now().Format(time.RFC3339)}}},
		changes: []map[string]any{{"at": time.Now().Format(time.RFC3339), "by": "api", "source": "store", "version": 1764520000000000, "rule": "per-user", "before": "80/m burst 20", "after": "100/m burst 20"},
			{"at": time.Now().Add(-26 * time.Hour).Format(time.RFC3339), "by": "rules push", "source": "store", "version": 1764420000000000, "rule": "login", "before": "", "after": "5/m"}}}
	f.rules[4]["shadow"] = true
	f.rules[1]["overrides"] = 3
	return f
}
