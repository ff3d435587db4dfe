package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// What passes and what is refused is seen as it happens, by rule.
func TestPageShowsLiveTraffic(t *testing.T) {
	s := startService(t, serviceToken)
	p := openPage(t, s.url, "")
	p.waitText("#badge", "Healthy")
	p.waitText("#panel-overview", "No takes in the last three minutes")
	s.traffic(t, 20*time.Millisecond, `{"rule":"example","key":"busy"}`) // of 50 a second, 10 pass
	p.wait(`Number(document.querySelector("#allowed").innerText) >= 5 && Number(document.querySelector("#refused").innerText) >= 5`)
	p.wait(`document.querySelector('#busiest tr[data-rule="example"]') !== null`)
	p.wait(`/example: [1-9]\S* allowed, [1-9]\S* refused per second/.test(document.querySelector("#busiest [role=img]").ariaLabel)`)
	p.wait(`document.querySelector("#chart canvas").width > 0`)
	p.wait(`/\d (µs|ms|s)$/.test(document.querySelector("#latency").innerText)`)

	p.click("#tab-keys")
	p.waitText("#keys-list", "busy")
	p.click("#keys-list button")
	p.waitText("#key-state", "10/s burst 20")
}

// A limit that is changed on the page counts from the next take on, wherever the page can change rules; undone, the one
// before counts again.
func TestPageChangesALimit(t *testing.T) {
	for _, test := range []struct {
		name, rule, body, limit string
		burst                   int64
		args                    func(t *testing.T) []string
	}{
		{"the built-in example", "example", `{"rule":"example","key":"k"}`, "10/s burst 20", 20, func(*testing.T) []string { return nil }},
		{"rules in Redis", "per-user", `{"attributes":{"path":"/api/x","user":"u"}}`, "600/min burst 5", 5, func(t *testing.T) []string {
			t.Helper()
			return []string{"--store", redisWithRules(t, pageRules), "--rules", "store"}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startService(t, serviceToken, test.args(t)...)
			if limit, _ := s.take(t, test.body); limit != test.burst {
				t.Fatalf("the limit is %d at first", limit)
			}
			p := openPage(t, s.url, "")
			p.token(serviceToken)
			p.rule(test.rule)
			p.fill("#edit-limit", "1/h burst 3")
			p.waitText("#diff", "+ limit: 1/h burst 3")
			p.waitText("#diff", "− limit: ")
			p.click("#apply")
			p.waitText("#rule-note", "Applied")
			if limit, _ := s.take(t, test.body); limit != 3 {
				t.Errorf("after the change the limit is %d", limit)
			}
			p.waitText("#rule-limit", "burst 3")
			p.click("#tab-changes")
			p.waitText("#changes-list", "burst 3")
			p.click("#tab-rules")
			p.click("#undo")
			p.waitText("#rule-note", "Undone")
			if limit, _ := s.take(t, test.body); limit != test.burst {
				t.Errorf("after it was undone the limit is %d", limit)
			}
			p.do(chromedp.SetValue("#edit-span", "900"))
			p.wait(`document.querySelector("#edit-span").dispatchEvent(new Event("change"))`)
			p.fill("#edit-limit", "1/h burst 4")
			p.waitText("#diff", "for 15 minutes")
			p.click("#apply")
			p.waitText("#rule-note", "for a time")
			p.waitText("#rule", "Then")
			if limit, _ := s.take(t, test.body); limit != 4 {
				t.Errorf("for a time the limit is %d", limit)
			}
		})
	}
}

// What stands in the way of a change is said, and nothing is changed.
func TestPageRefusesAChange(t *testing.T) {
	change := func(p *pageTab) {
		p.fill("#edit-limit", "1/h burst 3")
		p.click("#apply")
	}
	t.Run("no token is given", func(t *testing.T) {
		s := startService(t, serviceToken)
		p := openPage(t, s.url, "")
		p.rule("example")
		change(p)
		p.waitText("#rule-note", "needs the token: enter it at the top")
		p.wait(`document.activeElement.id === "token"`)
		unchanged(t, s)
	})
	t.Run("the token is another", func(t *testing.T) {
		s := startService(t, serviceToken)
		p := openPage(t, s.url, "")
		p.expect("401 (Unauthorized)") // which Chromium logs by itself
		p.token("not it")
		p.rule("example")
		change(p)
		p.waitText("#rule-note", "the token is not this server's")
		unchanged(t, s)
	})
	t.Run("the server has no token", func(t *testing.T) {
		s := startService(t, "")
		p := openPage(t, s.url, "")
		p.waitText("#token-note", "this server has none")
		p.rule("example")
		change(p)
		p.waitText("#rule-note", "start it with --token-file")
		unchanged(t, s)
	})
	t.Run("the limit is none", func(t *testing.T) {
		s := startService(t, serviceToken)
		p := openPage(t, s.url, "")
		p.expect("422 (Unprocessable")
		p.token(serviceToken)
		p.rule("example")
		p.fill("#edit-limit", "ten per second")
		p.click("#apply")
		p.waitText("#rule-note", "the rules are bad, and stay as they are")
		unchanged(t, s)
	})
	t.Run("the rules are in a file", func(t *testing.T) {
		file := writeRules(t, pageRules)
		s := startService(t, serviceToken, "--rules", file)
		p := openPage(t, s.url, "")
		p.token(serviceToken)
		p.rule("per-user")
		p.waitText("#rules-place", filepath.Base(file))
		p.waitText("#rule-place", filepath.Base(file))
		p.wait(`document.querySelector("#edit-limit") === null && document.querySelector("#apply") === null`)
	})
}

func unchanged(t *testing.T, s *service) {
	t.Helper()
	if limit, _ := s.take(t, `{"rule":"example","key":"k"}`); limit != 20 {
		t.Errorf("the limit is %d", limit)
	}
}

// A key says why it is refused, and is reset by who has the token.
func TestPageResetsAKey(t *testing.T) {
	s := startService(t, serviceToken, "--rules", writeRules(t, "version: 1\nrules:\n  - {name: pair, key: [tenant, user], limit: 1/h}\n  - {name: all, limit: 100/h}\n"))
	body := `{"rule":"pair","key":["a/b","ü "]}`
	s.take(t, body)
	if _, allowed := s.take(t, body); allowed {
		t.Fatal("the second of 1/h is allowed")
	}
	p := openPage(t, s.url, "#keys")
	p.waitText("#keys-list", "a/b · ü ")
	p.click("#keys-list button")
	p.waitText("#key-state", "The rule pair refuses it: 0 of 1 remain. It passes in 59 min")
	p.click("#reset")
	p.waitText("#key-state", "needs the token")
	p.token(serviceToken)
	p.click("#reset")
	p.waitText("#key-state", "as good as new")
	if _, allowed := s.take(t, body); !allowed {
		t.Error("after the reset it is refused")
	}
	// A rule without a key has one bucket, which is looked at as well.
	p.fill("#keys-rule", "all")
	p.waitText("#key-form", "one bucket for all")
	p.click("#key-form button[type=submit]")
	p.waitText("#key-state", "100 of 100 remain")
}

// Trying says which rules match, and charges nothing.
func TestPageTriesARequest(t *testing.T) {
	s := startService(t, serviceToken, "--rules", writeRules(t, pageRules))
	p := openPage(t, s.url, "#try")
	p.wait(`document.querySelectorAll("#attributes input").length >= 4`) // user and ip, of which keys are made
	p.fill("#attributes .pair:nth-child(1) input:nth-child(2)", "u")
	p.click("#try-add")
	p.fill("#attributes .pair:last-child input:nth-child(1)", "path")
	p.fill("#attributes .pair:last-child input:nth-child(2)", "/api/x")
	for range 3 {
		p.click("#try-ask")
		p.waitText("#try-result", "5 of 5 remain by the rule per-user")
	}
	if text := p.text("#try-result table"); text == "" {
		t.Error("no rule is said to match")
	}
	p.fill("#try-cost", "6")
	p.click("#try-ask")
	p.waitText("#try-result", "Waiting is in vain")
	if _, allowed := s.take(t, `{"attributes":{"path":"/api/x","user":"u"}}`); !allowed {
		t.Error("what was tried was charged")
	}
}
