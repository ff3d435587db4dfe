package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// pageTab is the page of the service in a tab of a browser, and what went wrong in it.
type pageTab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	problems []string
	foreign  []string
	expected []string // of the problems, those that the test is about
}

// openPage opens the page, at a tab of it such as "#rules". When the test ends, the console must have had no error and no
// request have left the origin.
func openPage(t *testing.T, url, hash string) *pageTab {
	t.Helper()
	p := &pageTab{t: t, ctx: browser(t), url: url}
	p.do(chromedp.EmulateViewport(1360, 860))
	if err := chromedp.Listen(p.ctx, p.listen); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.Navigate(url + "/" + hash))
	t.Cleanup(p.verify)
	return p
}

func (p *pageTab) listen(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := ev.(type) {
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, p.url+"/") && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "about:") {
			p.foreign = append(p.foreign, u)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			p.problems = append(p.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		p.problems = append(p.problems, text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			p.problems = append(p.problems, fmt.Sprintf("console.%s %s", e.Type, e.Args[0].Value))
		}
	}
}

// expect lets the browser log what has the text, such as a status that the test provokes.
func (p *pageTab) expect(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, text)
}

func (p *pageTab) verify() {
	p.mu.Lock()
	defer p.mu.Unlock()
next:
	for _, problem := range p.problems {
		for _, e := range p.expected {
			if strings.Contains(problem, e) {
				continue next
			}
		}
		p.t.Errorf("the console has: %s", problem)
	}
	for _, u := range p.foreign {
		p.t.Errorf("a request left the origin: %s", u)
	}
}

func (p *pageTab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits until the expression, JavaScript, is true.
func (p *pageTab) wait(expression string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(50*time.Millisecond),
		chromedp.WithPollingTimeout(20*time.Second))); err != nil {
		body, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText`))
		p.t.Fatalf("%s: %v; the page says\n%s", expression, err, body)
	}
}

// waitText waits until what the selector finds has the text.
func (p *pageTab) waitText(selector, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q)", selector, text))
}

func (p *pageTab) text(selector string) string {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector)))
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

func (p *pageTab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(selector))
}

// fill writes the text over what is in the field.
func (p *pageTab) fill(selector, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`(document.querySelector(%q).value = "", true)`, selector))
	p.do(chromedp.SendKeys(selector, text))
	if text == "" { // for the page to hear of it
		p.wait(fmt.Sprintf(`document.querySelector(%q).dispatchEvent(new Event("input", {bubbles: true}))`, selector))
	}
}

// rule opens the rule in the tab of rules.
func (p *pageTab) rule(name string) {
	p.t.Helper()
	p.click("#tab-rules")
	p.fill("#rules-search", name)
	row := fmt.Sprintf(`#rules-list tr[data-rule=%q] button`, name)
	p.wait(fmt.Sprintf("document.querySelectorAll('#rules-list tr').length == 1 && document.querySelector(%q) != null", row))
	p.click(row)
	p.waitText("#rule h2", name)
}

func (p *pageTab) token(token string) {
	p.t.Helper()
	p.fill("#token", token)
	p.click("#token-form button")
	p.waitText("#token-note", "kept until")
}

// scheme makes the browser prefer light or dark.
func (p *pageTab) scheme(name string) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	}); err != nil {
		p.t.Fatal(err)
	}
}
