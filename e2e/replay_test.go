package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// replayed writes a log and replays it with an outage, and returns the page of the report.
func replayed(t *testing.T) (page string) {
	t.Helper()
	dir := t.TempDir()
	command := filepath.Join(dir, "tidegate")
	if out, err := exec.Command("go", "build", "-o", command, "../server/cmd/tidegate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var lines bytes.Buffer
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for i := range 30_000 { // ten minutes at 50 a second, with a wave in it
		at := start.Add(time.Duration(i) * 20 * time.Millisecond)
		fmt.Fprintf(&lines, "ts=%d.%03d path=/ user=user-%d\n", at.Unix(), at.Nanosecond()/1e6, i%(3+i/2000))
	}
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	rules := write("rules.yaml", "version: 1\nrules:\n  - {name: all, limit: 30/s burst 60}\n  - {name: '</script><script>alert(1)//', key: [user], limit: 4/s burst 20}\n")
	page = filepath.Join(dir, "report.html")
	out, err := exec.Command(command, "replay", "--rules", rules, "--skew", "60,25,15", "--outage", "10:03-10:05", "--html", page, write("access.log", lines.String())).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return page
}

// The page of a replay is whole without a network: it asks for nothing, the chart is drawn, the outage is shaded, and the browser has
// nothing to complain of. What a rule is called does not become a script.
func TestReplayPage(t *testing.T) {
	ctx := browser(t)
	page := "file://" + replayed(t)
	var complaints, asked []string
	var mu sync.Mutex
	err := chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			complaints = append(complaints, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			complaints = append(complaints, "console."+string(e.Type))
		case *log.EventEntryAdded:
			complaints = append(complaints, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			asked = append(asked, e.Request.URL)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	got := eval[struct {
		Canvases, Coloured, Shaded, Scripts int
		Tables                              []string
		Wide                                bool
		Fetched                             string
	}](ctx, t, page, `
		const c = document.querySelector("#chart canvas");
		const d = c.getContext("2d", {willReadFrequently: true}).getImageData(0, 0, c.width, c.height).data;
		const pixels = (x0, x1) => { // the part of those between that are not blank
			let n = 0, all = 0;
			for (let x = Math.round(c.width * x0); x < Math.round(c.width * x1); x++)
				for (let y = 0; y < c.height; y++, all++) if (d[4 * (y * c.width + x) + 3] > 0) n++;
			return n / all;
		};
		return {
			Canvases: document.querySelectorAll("#chart canvas").length, Scripts: document.scripts.length,
			Coloured: Math.round(1000 * pixels(0, 1)), Shaded: Math.round(1000 * pixels(0.37, 0.43)),
			Tables: [...document.querySelectorAll("h2")].map(h => h.textContent),
			Wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
			Fetched: await fetch("https://example.com/").then(() => "fetched", () => "refused"),
		};`)
	if got.Canvases != 1 || got.Coloured < 100 || got.Shaded < 700 || got.Scripts != 2 || got.Wide || got.Fetched != "refused" {
		t.Errorf("%+v", got)
	}
	if !slices.Contains(got.Tables, "Outages") || !slices.Contains(got.Tables, "Refused most") {
		t.Errorf("%q", got.Tables)
	}
	// The fetch of the test itself is refused by the page's policy, before any network is asked; that is the one complaint.
	mu.Lock()
	defer mu.Unlock()
	complaints = slices.DeleteFunc(complaints, func(text string) bool { return strings.Contains(text, "https://example.com/") })
	asked = slices.DeleteFunc(asked, func(url string) bool { return url == page })
	if len(complaints) > 0 || len(asked) > 0 {
		t.Errorf("complaints: %q, asked for %q", complaints, asked)
	}
}
