package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/internal/redistest"
)

// Every contender decides as its workload wants it: each call that does not is an error. Peers are run as ours is.
func TestContendersDecide(t *testing.T) {
	srv := redistest.StartTCP(t)
	const calls = 200
	for _, w := range workloads(srv.Addr) {
		for _, c := range w.beside("all", regexp.MustCompile("")).contenders {
			t.Run(w.name+"/"+c.name, func(t *testing.T) {
				for range 2 { // what the first run leaves in Redis, the second meets
					call, done, err := c.open(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer done()
					for n := range calls {
						for caller := range min(w.callers, 2) {
							if err := call(t.Context(), caller, n); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			})
		}
	}
}

// A run is a line in the format of Go's benchmarks.
func TestBenchfmt(t *testing.T) {
	redistest.Start(t) // skips where there is no server
	var out bytes.Buffer
	o := options{duration: 300 * time.Millisecond, runs: 2, only: "^1 callers, 1 keys|^memory, one limiter, one core$", peers: "some", benchfmt: true}
	if err := run(t.Context(), &out, o); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^Benchmark(Redis|Memory)/callers=\d+/keys=\d+/contender=\S+-\d+\t\d+\t[0-9.]+ ns/op\t\d+ p50-ns\t\d+ p99-ns$`)
	n := 0
	for text := range strings.Lines(out.String()) {
		text = strings.TrimSuffix(text, "\n")
		if strings.HasPrefix(text, "Benchmark") {
			n++
			if !line.MatchString(text) {
				t.Errorf("%q", text)
			}
		}
	}
	if n != 2*2*2 { // runs, contenders, workloads
		t.Errorf("%d lines:\n%s", n, &out)
	}
	for _, want := range []string{"goos: ", "cpu: ", "redis: Redis "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %s in\n%s", want, &out)
		}
	}
}

// The table has ratios to ours, and what is wrong on the command line is said.
func TestTable(t *testing.T) {
	redistest.Start(t)
	var out bytes.Buffer
	o := options{duration: 100 * time.Millisecond, runs: 1, only: "^memory, one limiter, one core$", peers: "all"}
	if err := run(t.Context(), &out, o); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| tidegate ", "| sethvargo/go-limiter ", "| throttled ", "×", "cores, "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
	for _, wrong := range []options{
		{duration: 1, runs: 1, only: "(", peers: "some"},
		{duration: 0, runs: 1, peers: "some"},
		{duration: 1, runs: 0, peers: "some"},
		{duration: 1, runs: 1, peers: "others"},
		{duration: 1, runs: 1, only: "no such work", peers: "some"},
	} {
		if err := run(t.Context(), &out, wrong); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}

// A ratio is that of runs next to each other: a machine that becomes half as fast between two rounds changes none.
func TestRatios(t *testing.T) {
	runs := func(perSecond ...float64) (rs []result) {
		for _, v := range perSecond {
			rs = append(rs, result{perSecond: v})
		}
		return rs
	}
	for _, c := range []struct {
		ours, theirs []result
		want         string
	}{
		{runs(300), runs(100), "3.00×"},
		{runs(300, 150, 151), runs(100, 50, 50), "3.00× (3.00–3.02)"},
		{runs(400, 150, 80, 50), runs(100, 50, 40, 50), "2.50× (1.00–4.00)"},
	} {
		if got := ratios(c.ours, c.theirs); got != c.want {
			t.Errorf("%s, not %s", got, c.want)
		}
	}
}
