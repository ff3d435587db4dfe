package scenario

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tidegate-go/tidegate"
)

// Run runs every .txt file of the folder against stores that newStore makes. They decide by the clock now, which may be
// called from any goroutine, and are closed by Run.
func Run(t *testing.T, dir string, newStore func(t *testing.T, now func() time.Time) tidegate.Store) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no stories in %s (%v)", dir, err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			var s *story
			t.Cleanup(func() { s.end(t) })
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				t.Helper()
				switch {
				case d.Cmd == "story":
					s.end(t)
					s = begin()
					s.store = newStore(t, s.clock)
				case d.Cmd != "then":
					d.Fatalf(t, "unknown directive %q: begin with story, go on with then", d.Cmd)
				case s == nil:
					d.Fatalf(t, "no story has begun")
				}
				text, err := s.tell(d.Input)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				return text
			})
		})
	}
}

// story is a store, a clock and the limits that were named.
type story struct {
	store  tidegate.Store
	micros atomic.Int64 // the clock, in µs since the Unix epoch
	base   int64        // where it began
	passed int64        // µs since the beginning, whatever the clock says
	zone   *time.Location
	views  map[string]*view
	rows   []row
}

// view is a limit as somebody knows it.
type view struct {
	rule    string
	limit   *tidegate.Limit
	version int64
}

// row is a line of a transcript: when, what was asked, and what came of it; or a line of a plot or of one charge of several.
type row struct{ time, command, result string }

func begin() *story {
	s := &story{views: map[string]*view{}}
	s.start(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	return s
}

func (s *story) start(at time.Time) {
	s.base = at.UnixMicro()
	s.micros.Store(s.base)
}

func (s *story) end(t *testing.T) {
	t.Helper()
	if s == nil || s.store == nil {
		return
	}
	if err := s.store.Close(); err != nil {
		t.Errorf("closing the store: %v", err)
	}
	s.store = nil
}

// clock is the store's.
func (s *story) clock() time.Time { return time.UnixMicro(s.micros.Load()) }

// pass lets time pass.
func (s *story) pass(d time.Duration) {
	us := int64(d / time.Microsecond)
	s.passed += us
	s.micros.Add(us)
}

// tell runs the commands and returns the transcript.
func (s *story) tell(input string) (string, error) {
	s.rows = nil
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.command(line); err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
	}
	return layout(s.rows), nil
}

// layout aligns the columns. A row without a time is indented below the one before.
func layout(rows []row) string {
	times, commands := 0, 0
	for _, r := range rows {
		times = max(times, len(r.time))
		if r.result != "" {
			commands = max(commands, len(r.command))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		line := fmt.Sprintf("%-*s  %-*s  %s", times, r.time, commands, r.command, r.result)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// say adds a row at the time that it is now.
func (s *story) say(command, result string) {
	s.rows = append(s.rows, row{s.timestamp(), command, result})
}

// timestamp tells the time: since the beginning, or by the clock where the story has a zone.
func (s *story) timestamp() string {
	if s.zone == nil {
		return short(time.Duration(s.passed) * time.Microsecond)
	}
	at := s.clock().In(s.zone)
	if at.Nanosecond() == 0 {
		return at.Format("2006-01-02 15:04:05 MST")
	}
	return at.Format("2006-01-02 15:04:05.000000 MST")
}

// short writes 1m0s as 1m.
func short(d time.Duration) string {
	if d == tidegate.Never {
		return "never"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
