package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// hostile is a name that would run if any of the page's ways to show it read HTML.
const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'"&amp;`

func TestPageShowsHostileTextAsText(t *testing.T) {
	f := &fakeAPI{rules: []map[string]any{fakeRule(hostile, hostile, hostile, hostile)}, state: map[string]any{
		"reason": hostile, "store": hostile, "version": hostile, "rules_source": hostile, "state": "degraded",
		"shares": map[string]any{hostile: 0.5}, "breakers": []any{map[string]any{"rule": hostile, "state": hostile, "since": hostile}},
	}, changes: []map[string]any{{"at": hostile, "by": hostile, "source": hostile, "version": 1, "rule": hostile, "before": hostile, "after": hostile}}}
	p := openPage(t, f.serve(t), "")
	p.waitText("#busiest", hostile)
	p.waitText("#panel-overview", hostile)
	p.click("#tab-rules")
	p.waitText("#rules-list", hostile)
	p.click("#rules-list button")
	p.waitText("#rule", hostile)
	p.fill("#edit-limit", hostile)
	p.waitText("#diff", hostile)
	p.click("#tab-keys")
	p.waitText("#keys-list", hostile)
	p.click("#keys-list button")
	p.waitText("#key-state", hostile)
	p.waitText("#key-state", "It passes in 3.2 s")
	p.click("#tab-changes")
	p.waitText("#changes-list", hostile)
	p.click("#tab-try")
	p.wait("document.querySelectorAll('#attributes input').length >= 2")
	p.click("#try-ask")
	p.waitText("#try-result", hostile)
	p.wait("window.hacked === undefined && document.querySelector('main img') === null")
}

// The list comes by the page, so that ten thousand rules are as fast as ten.
func TestPageIsFastWithManyRules(t *testing.T) {
	rules := make([]map[string]any, 10_000)
	for i := range rules {
		rules[i] = fakeRule(fmt.Sprintf("rule-%05d", i), "10/s burst 20", "path is /api/"+fmt.Sprint(i), "user")
	}
	p := openPage(t, (&fakeAPI{rules: rules}).serve(t), "#rules")
	p.waitText("#rules-found", "10,000 rules")
	p.wait("document.querySelectorAll('#rules-list tr').length === 50")
	start := time.Now()
	p.rule("rule-09876")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("finding one of 10,000 rules took %v", took)
	}
	p.click("#tab-overview")
	p.wait("document.querySelectorAll('#busiest tr').length === 15 && document.querySelectorAll('#busiest canvas').length === 15")
	// While charts are drawn and 10,000 counters are read each second, the page still answers at once.
	slowest, err := chromedp.Run(p.ctx, chromedp.Evaluate[float64](`new Promise((done) => {
		let slowest = 0, last = performance.now(), n = 0;
		const timer = setInterval(() => {
			const now = performance.now();
			slowest = Math.max(slowest, now - last);
			last = now;
			if (++n === 150) { clearInterval(timer); done(slowest); }
		}, 20);
	})`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the page did not answer for at most %.0f ms", slowest)
	if slowest > 1000 {
		t.Errorf("the page did not answer for %.0f ms", slowest)
	}
}

func TestPageTellsOfAnOutage(t *testing.T) {
	f := &fakeAPI{rules: []map[string]any{fakeRule("a", "10/s", "everything", "user")}, state: map[string]any{
		"state": "degraded", "reason": "connection refused", "shares": map[string]any{"a": 0.33},
		"breakers": []any{map[string]any{"rule": "a", "state": "open", "since": time.Now().Format(time.RFC3339)}},
	}}
	p := openPage(t, f.serve(t), "")
	p.waitText("#badge", "Degraded")
	p.waitText("#state", "degraded")
	for _, text := range []string{"connection refused", "33 %", "open", "The store is away"} {
		p.waitText("#panel-overview", text)
	}
}

// Everything can be reached and read without a mouse or a screen.
func TestPageByKeyboardAndReader(t *testing.T) {
	f := &fakeAPI{rules: []map[string]any{fakeRule("a", "10/s", "everything", "user"), fakeRule("b", "10/s", "everything", "user")}}
	p := openPage(t, f.serve(t), "")
	p.waitText("#badge", "Healthy")
	p.do(chromedp.Focus("#tab-overview"))
	for _, step := range []struct{ key, want string }{
		{kb.ArrowRight, "rules"}, {kb.ArrowRight, "keys"}, {kb.End, "try"}, {kb.ArrowRight, "overview"}, {kb.ArrowLeft, "try"},
		{kb.Home, "overview"}, {kb.ArrowRight, "rules"},
	} {
		p.do(chromedp.KeyEvent(step.key))
		p.wait(fmt.Sprintf(`document.activeElement.id === "tab-%[1]s" && document.activeElement.ariaSelected === "true" &&
			!document.getElementById("panel-%[1]s").hidden && document.querySelectorAll("[role=tabpanel]:not([hidden])").length === 1 &&
			document.querySelectorAll("[role=tab][tabindex='-1']").length === 4 && location.hash === "#%[1]s"`, step.want))
	}
	p.wait("document.querySelectorAll('#rules-list tr').length === 2")
	for _, want := range []string{"panel-rules", "rules-search"} {
		p.do(chromedp.KeyEvent(kb.Tab))
		p.wait(fmt.Sprintf("document.activeElement.id === %q && getComputedStyle(document.activeElement).outlineStyle !== 'none'", want))
	}
	p.do(chromedp.KeyEvent(kb.Tab))
	p.do(chromedp.KeyEvent(kb.Enter))
	p.waitText("#rule h2", "a")
	p.do(chromedp.NavigateBack())
	p.wait(`document.getElementById("tab-overview").ariaSelected === "true"`)
	// What a reader needs: each control has a name, each live text says so, each picture has words.
	for _, tab := range []string{"overview", "rules", "keys", "changes", "try"} {
		p.click("#tab-" + tab)
		nameless, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`[...document.querySelectorAll("button, input, select, [role=img], table")]
			.filter((e) => e.checkVisibility())
			.filter((e) => !(e.ariaLabel || e.labels?.length || e.caption || (e.tagName === "BUTTON" && e.innerText.trim())))
			.map((e) => e.outerHTML.slice(0, 120)).join("\n")`))
		if err != nil {
			t.Fatal(err)
		}
		if nameless != "" {
			t.Errorf("%s has no name:\n%s", tab, nameless)
		}
	}
	for _, id := range []string{"badge", "message", "rules-found", "key-state", "try-result"} {
		p.wait(fmt.Sprintf("document.getElementById(%q).ariaLive === 'polite'", id))
	}
}

// All text can be told from its ground, in light and in dark.
func TestPageContrast(t *testing.T) {
	f := &fakeAPI{rules: []map[string]any{fakeRule("a", "10/s", "everything", "user")}, state: map[string]any{"state": "degraded", "reason": "gone"}}
	p := openPage(t, f.serve(t), "")
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		for _, tab := range []string{"overview", "rules", "keys", "changes", "try"} {
			p.click("#tab-" + tab)
			p.waitText("#badge", "Degraded")
			faint, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](contrast))
			if err != nil {
				t.Fatal(err)
			}
			if faint != "" {
				t.Errorf("%s, %s:\n%s", tab, scheme, faint)
			}
		}
	}
}

// contrast lists texts whose contrast with their ground is below 4.5, as WCAG 2 reckons it.
const contrast = `(() => {
	const numbers = (c) => c.match(/[\d.]+/g).map(Number);
	const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const c = numbers(getComputedStyle(e).backgroundColor);
			if (c.length === 3 || c[3] === 1) return c;
		}
		return [255, 255, 255];
	};
	const faint = [];
	for (const e of document.querySelectorAll("body *")) {
		if (!e.checkVisibility() || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
		const a = light(numbers(getComputedStyle(e).color)), b = light(ground(e));
		const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (ratio < 4.5) faint.push(ratio.toFixed(2) + " " + e.outerHTML.slice(0, 100));
	}
	return faint.join("\n");
})()`
