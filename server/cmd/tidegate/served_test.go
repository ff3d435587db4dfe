package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// served is a service that runs as a process of its own.
type served struct {
	url    string
	cmd    *exec.Cmd
	stderr watchedBuffer
	done   chan struct{}
}

var listeningOn = regexp.MustCompile(`listening on (http://\S+)`)

// serve starts a service and waits until it listens.
func serve(t *testing.T, args ...string) *served {
	t.Helper()
	s := launch(t, args...)
	s.awaits(t, "listening on")
	text, _ := s.stderr.text()
	s.url = listeningOn.FindStringSubmatch(text)[1]
	return s
}

// launch starts a service. It is told to end with the test, and must end well.
func launch(t *testing.T, args ...string) *served {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &served{done: make(chan struct{})}
	s.stderr.wrote = make(chan struct{})
	s.cmd = exec.Command(self)
	s.cmd.Args = append([]string{"tidegate", "serve", "--listen", "127.0.0.1:0"}, args...) // by which name TestMain knows what to be
	s.cmd.Stderr = &s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(func() { s.stop(t) })
	return s
}

// stop ends the service, which must end well.
func (s *served) stop(t *testing.T) {
	t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.done:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.done
		t.Error("the service does not end")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		text, _ := s.stderr.text()
		t.Errorf("the service ended with %d:\n%s", code, text)
	}
}

// awaits waits for a text in what the service logs.
func (s *served) awaits(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(patience)
	for {
		have, more := s.stderr.text()
		if strings.Contains(have, text) {
			return
		}
		select {
		case <-more:
		case <-s.done:
			t.Fatalf("the service ended without %q:\n%s", text, have)
		case <-timeout:
			t.Fatalf("the service does not say %q:\n%s", text, have)
		}
	}
}

// answer is a decision as the API tells it, and what else there may be.
type answer struct {
	Allowed bool   `json:"allowed"`
	Limit   *int64 `json:"limit"` // nil: unlimited
	Rule    string `json:"rule"`
	Source  string `json:"source"`
	Error   string `json:"error"`
	status  int
}

var testClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: patience}

// take asks the service for a decision.
func (s *served) take(body string) (answer, error) {
	return s.post("/v1/take", body)
}

func (s *served) post(path, body string) (answer, error) {
	resp, err := testClient.Post(s.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("%s: %w", b, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("%d: %s", a.status, a.Error)
	}
	return a, nil
}

// metric returns the value of a series of the service, -1 if there is none.
func (s *served) metric(t *testing.T, series string) float64 {
	t.Helper()
	resp, err := testClient.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		if value, ok := bytes.CutPrefix(line, []byte(series+" ")); ok {
			n, err := strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return -1
}

// limit returns the limit that the rule has now; -1 where it is unlimited or not known.
func (s *served) limit() int64 {
	a, err := s.post("/v1/peek", `{"attributes":{}}`)
	if err != nil || a.Limit == nil {
		return -1
	}
	return *a.Limit
}

// eventually calls f until it is true, and fails the test when that takes too long.
func eventually(t *testing.T, within time.Duration, what string, f func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !f() {
		if time.Since(start) > within {
			t.Fatalf("%s: not within %v", what, within)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(start)
}

// load takes from a service again and again, and keeps what was seen.
type load struct {
	stop   chan struct{}
	wg     sync.WaitGroup
	takes  atomic.Int64
	start  time.Time
	mu     sync.Mutex
	limits map[int64]int // how often each was told
	alone  int           // takes decided in fallback
	errs   []string
}

// startLoad begins so many takes per second.
func startLoad(s *served, perSecond int) *load {
	const workers = 16
	l := &load{stop: make(chan struct{}), start: time.Now(), limits: map[int64]int{}}
	for range workers {
		l.wg.Go(func() {
			tick := time.NewTicker(time.Second * workers / time.Duration(perSecond))
			defer tick.Stop()
			for {
				select {
				case <-l.stop:
					return
				case <-tick.C:
				}
				l.saw(s.take(`{"attributes":{}}`))
			}
		})
	}
	return l
}

func (l *load) saw(a answer, err error) {
	l.takes.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.errs = append(l.errs, err.Error())
	case a.Rule != "r" || a.Limit == nil || a.status != http.StatusOK && a.status != http.StatusTooManyRequests:
		l.errs = append(l.errs, fmt.Sprintf("%+v", a))
	case a.Source == "fallback": // the machine was too busy for the store to answer in time: under its share of a limit
		l.alone++
	default:
		l.limits[*a.Limit]++
	}
}

// end ends the load, and holds it to answers that were all decisions by the rule, under limits that were good ones.
func (l *load) end(t *testing.T, good map[int64]bool) {
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	t.Logf("%d takes, %.0f/s, %d of them in fallback", l.takes.Load(), float64(l.takes.Load())/time.Since(l.start).Seconds(), l.alone)
	if len(l.errs) > 0 {
		t.Errorf("%d takes failed, or found no rule, the first: %s", len(l.errs), l.errs[0])
	}
	for limit, n := range l.limits {
		if !good[limit] {
			t.Errorf("%d takes were decided under the limit %d, which no good version has", n, limit)
		}
	}
	testClient.CloseIdleConnections()
}
