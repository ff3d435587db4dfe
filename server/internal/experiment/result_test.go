package experiment

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// handMade is a run of 12 s: 10 requests every 100 ms, none while the store is away, and a burst when it is back.
func handMade(scenario Scenario) *Trace {
	a := newAnswers()
	a.saw(2*ms, http.StatusNoContent, nil)
	a.saw(time.Millisecond, http.StatusTooManyRequests, nil)
	t := &Trace{plan: &Plan{Config: newConfig(nil), Scenario: scenario, Load: Steady}, sent: 2, answers: a}
	for at := time.Duration(0); at < 12*time.Second; at += 100 * ms {
		n := 10
		if scenario == Outage && at >= 4*time.Second && at < 8*time.Second {
			n = 0
		} else if scenario == Outage && at == 8*time.Second {
			n = 50
		}
		t.arrivals = append(t.arrivals, every(0, n, at)...)
	}
	if scenario == Outage {
		t.outage = outage{from: 4 * time.Second, to: 8 * time.Second}
	}
	return t
}

func TestResultAsJSON(t *testing.T) {
	for scenario, want := range map[Scenario]string{
		Shared: `{"scenario":"shared","load":"steady","offered":2,"admitted":1200,"peak_1s":100,"peak_1s_after_start":100,` +
			`"steady_mean":100,"steady_stddev":0,"outage_mean":null,"outage_peak_1s":null,"recovery_peak_1s":null,` +
			`"errors":0,"wait_p99_seconds":0.002,"wait_max_seconds":0.002}`,
		// Of the windows that begin from 3 to 8 s, those of the first second lose ten requests each tenth of it.
		Outage: `{"scenario":"outage","load":"steady","offered":2,"admitted":840,"peak_1s":140,"peak_1s_after_start":140,` +
			`"steady_mean":100,"steady_stddev":0,"outage_mean":28,"outage_peak_1s":140,"recovery_peak_1s":140,` +
			`"errors":0,"wait_p99_seconds":0.002,"wait_max_seconds":0.002}`,
	} {
		if b, err := json.Marshal(handMade(scenario).Result()); err != nil || string(b) != want {
			t.Errorf("%s, %v\nwant %s", b, err, want)
		}
	}
}

// What happens before the first second is over is no window after the start, and what lasts beyond the end is in a window.
func TestPeaksAreTold(t *testing.T) {
	tr := handMade(Shared)
	tr.arrivals = append(append(every(0, 500, 0), tr.arrivals...), every(0, 300, 12*time.Second)...)
	if r := tr.Result(); r.PeakSecond != 600 || r.PeakSecondAfterStart != 390 || r.SteadyMean != 100 {
		t.Errorf("%+v", r)
	}
}

func TestErrorsAreTold(t *testing.T) {
	tr := handMade(Shared)
	for range 3 {
		tr.answers.saw(time.Second, 0, errors.New("connection refused"))
	}
	tr.answers.saw(time.Hour, http.StatusServiceUnavailable, nil)
	r := tr.Result()
	if r.Errors != 4 || r.WaitMaxSeconds != 3600 {
		t.Errorf("%+v", r)
	}
	if got := tr.Causes(); len(got) != 2 || got[0] != "3 requests failed: connection refused" || got[1] != "1 requests failed: status 503" {
		t.Errorf("%q", got)
	}
}

func TestText(t *testing.T) {
	want := strings.TrimPrefix(`
            run  offered  admitted  peak 1s  after start   mean  stddev  outage mean  outage peak  recovery peak  errors  wait p99  wait max
  shared steady        2      1200      100          100  100.0     0.0            -            -              -       0       2ms       2ms
  outage steady        2       840      140          140  100.0     0.0         28.0          140            140       0       2ms       2ms

shared steady  ▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃
outage steady  ▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃                    █▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃
   store away                      ▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔
               each step 200ms, the highest 60 requests, 300/s`, "\n")
	if got := Text([]*Trace{handMade(Shared), handMade(Outage)}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSparkline(t *testing.T) {
	if got := sparkline([]int{0, 1, 4, 8, 99, 100}, 100); got != " ▁▁▁██" {
		t.Errorf("%q", got)
	}
}

// The picture is the one that was looked at; TIDEGATE_UPDATE=1 draws it anew.
func TestSVG(t *testing.T) {
	b, err := SVG([]*Trace{handMade(Shared), handMade(Outage)})
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "runs.svg")
	if os.Getenv("TIDEGATE_UPDATE") != "" {
		if err := os.WriteFile(golden, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(b, want) {
		t.Errorf("%v; the picture has changed: look at it, and with TIDEGATE_UPDATE=1 this test keeps it", err)
	}
	rects := 0
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			for _, attr := range e.Attr {
				if attr.Value == "away" {
					rects++
				}
			}
		}
	}
	if rects != 1 {
		t.Errorf("%d shaded outages, want that of the one run", rects)
	}
}
