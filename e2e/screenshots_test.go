//go:build screenshots

package e2e

import (
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
		t.Fatal("TIDEGATE_SCREENSHOTS names no directory: run make screenshots")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := startService(t, serviceToken, "--store", redisWithRules(t, pictureRules), "--rules", "store")
	s.traffic(t, 4*time.Millisecond, pictureTakes()...)
	p := openPage(t, s.url, "")
	p.wait("document.querySelectorAll('#busiest tr').length > 2")
	select { // for the charts to have something to show
	case <-time.After(12 * time.Second):
	case <-p.ctx.Done():
	}
	p.token(serviceToken)
	prepare := map[string]func(){
		"rules": func() {
			p.rule("per-user")
			p.fill("#rules-search", "")
			p.wait("document.querySelectorAll('#rules-list tr').length > 3")
			p.fill("#edit-limit", "1200/min burst 40")
			p.click("#apply")
			p.waitText("#rule-note", "Applied")
			p.fill("#edit-limit", "900/min burst 30")
			p.waitText("#diff", "900/min")
		},
		"keys": func() {
			p.wait("document.querySelectorAll('#keys-list tr').length > 0")
			p.click("#keys-list button")
			p.wait("document.querySelector('#key-state .verdict') !== null")
		},
		"try": func() {
			p.wait("document.querySelectorAll('#attributes input').length >= 2")
			p.fill("#attributes .pair:nth-child(1) input:nth-child(2)", "user-3")
			p.click("#try-add")
			p.fill("#attributes .pair:last-child input:nth-child(1)", "path")
			p.fill("#attributes .pair:last-child input:nth-child(2)", "/api/orders")
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
}

const pictureRules = `version: 1
rules:
  - name: per-user
    match: {path: /api/**}
    key: [user]
    limit: 600/min burst 20
    overrides:
      - match: {user: "vip-*"}
        limit: 6000/min burst 200
  - name: global
    limit: 2000/s burst 4000
  - name: login
    match: {path: /login}
    key: [ip]
    limit: 30/min burst 5
  - name: search
    match: {path: /search, plan: [free, trial]}
    key: [tenant, user]
    limit: 20/s burst 40
    shadow: true
  - name: exports
    match: {path: /exports/**}
    key: [tenant]
    limit: 2/s
`

// pictureTakes are what a service is asked in turn: some users ask more than others.
func pictureTakes() []string {
	var bodies []string
	for i := range 60 {
		bodies = append(bodies, fmt.Sprintf(`{"attributes":{"path":"/api/orders","user":"user-%d"}}`, i*i%11%4))
		switch i % 6 {
		case 0:
			bodies = append(bodies, fmt.Sprintf(`{"attributes":{"path":"/login","ip":"192.0.2.%d"}}`, i%9))
		case 2:
			bodies = append(bodies, fmt.Sprintf(`{"attributes":{"path":"/search","plan":"free","tenant":"acme","user":"user-%d"}}`, i%3))
		case 4:
			bodies = append(bodies, `{"attributes":{"path":"/exports/2026","tenant":"acme"}}`)
		}
	}
	return bodies
}
