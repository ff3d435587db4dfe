package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/server/internal/loggen"
)

// The limit of both rules. They are in shadow, so that neither keeps requests from the other.
const (
	bruteLimit  = 30
	bruteWindow = 10_000_000 // µs
	bruteRules  = `version: 1
rules:
  - {name: log, key: [ip], limit: 30/10s sliding-log, shadow: true}
  - {name: fixed, key: [ip], limit: 30/10s fixed-window, shadow: true}
`
)

// logLine is what counts of a line: µs since 1970, and the address.
type logLine struct {
	at int64
	ip string
}

// readLog reads what loggen has written by a few cuts, not as the replay does.
func readLog(t *testing.T, name, format string) []logLine {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var lines []logLine
	for s := bufio.NewScanner(file); s.Scan(); {
		var l logLine
		var err error
		switch line := s.Text(); format {
		case "json": // {"ts":1772359200.123456,"remote_addr":"10.0.0.1",…
			line = strings.TrimPrefix(line, `{"ts":`)
			number, rest, _ := strings.Cut(line, ",")
			l.at, err = strconv.ParseInt(strings.Replace(number, ".", "", 1), 10, 64)
			l.ip = strings.Split(rest, `"`)[3]
		default: // 10.0.0.1 - user-1 [01/Mar/2026:10:00:00 +0000] …
			var at time.Time
			_, date, _ := strings.Cut(line, "[")
			date, _, _ = strings.Cut(date, "]")
			at, err = time.Parse("02/Jan/2006:15:04:05 -0700", date)
			l.at = at.UnixMicro()
			l.ip, _, _ = strings.Cut(line, " ")
		}
		if err != nil {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		lines = append(lines, l)
	}
	return lines
}

// ruleCounts is a rule's part of the report in JSON, as far as it is counted here.
type ruleCounts struct {
	Name        string `json:"name"`
	Offered     int64  `json:"offered"`
	Admitted    int64  `json:"admitted"`
	Refused     int64  `json:"refused"`
	Keys        int64  `json:"keys"`
	RefusedKeys int64  `json:"refused_keys"`
	Streak      int64  `json:"longest_streak"`
	PeakBefore  int    `json:"peak_1s_before"`
	PeakAfter   int    `json:"peak_1s_after"`
}

// bruteForce counts what a rule admits of the lines, which a function decides one by one.
func bruteForce(name string, lines []logLine, admit func(logLine) bool) ruleCounts {
	c := ruleCounts{Name: name, Offered: int64(len(lines))}
	keys, refused, streak := map[string]bool{}, map[string]bool{}, map[string]int64{}
	var all, passed []int64
	for _, l := range lines {
		all = append(all, l.at)
		keys[l.ip] = true
		if admit(l) {
			c.Admitted++
			passed = append(passed, l.at)
			streak[l.ip] = 0
			continue
		}
		c.Refused++
		refused[l.ip] = true
		streak[l.ip]++
		c.Streak = max(c.Streak, streak[l.ip])
	}
	c.Keys, c.RefusedKeys = int64(len(keys)), int64(len(refused))
	c.PeakBefore, c.PeakAfter = busiest(all), busiest(passed)
	return c
}

// busiest is the most of some moments, which are in order, that are in one second: a second after the first of them is outside.
func busiest(at []int64) (most int) {
	first := 0
	for i := range at {
		for at[i]-at[first] >= 1_000_000 {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// slidingLog admits what would not be one too many in the window that ends with it.
func slidingLog() func(logLine) bool {
	passed := map[string][]int64{}
	return func(l logLine) bool {
		n := 0
		mine := passed[l.ip]
		for i := len(mine) - 1; i >= 0 && l.at-mine[i] < bruteWindow; i-- {
			n++
		}
		if n == bruteLimit {
			return false
		}
		passed[l.ip] = append(mine, l.at)
		return true
	}
}

// fixedWindow admits the first so many of each window since 1970.
func fixedWindow() func(logLine) bool {
	type slot struct {
		ip     string
		window int64
	}
	passed := map[slot]int{}
	return func(l logLine) bool {
		at := slot{l.ip, l.at / bruteWindow}
		if passed[at] == bruteLimit {
			return false
		}
		passed[at]++
		return true
	}
}

// The report on a log of a million lines has the counts that a reader of the test's own and the definitions of the two limits give.
// Of one in whole seconds, the moments within them are the replay's to draw; those make no difference to the windows, which begin with
// a second.
func TestReplayCountsAreThoseOfBruteForce(t *testing.T) {
	lines := 1_000_000
	if testing.Short() || raceEnabled {
		lines = 100_000
	}
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(bruteRules), 0o600); err != nil {
		t.Fatal(err)
	}
	for format, lines := range map[string]int{"json": lines, "combined": lines / 5} {
		name := filepath.Join(dir, format+".log")
		writeLog(t, name, loggen.Config{Lines: lines, Seed: 42, Start: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), PerSecond: 400, Format: format})
		var stdout, stderr bytes.Buffer
		if code := run([]string{"replay", "--rules", rules, "--json", name}, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Fatalf("exit code %d\n%s", code, stderr.String())
		}
		var report struct {
			Requests int          `json:"requests"`
			Parsed   int          `json:"parsed"`
			Skipped  int          `json:"skipped"`
			Rules    []ruleCounts `json:"rules"`
		}
		if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
		if report.Requests != lines || report.Parsed != lines || report.Skipped != 0 || len(report.Rules) != 2 {
			t.Fatalf("%s: %+v", format, report)
		}
		read := readLog(t, name, format)
		if format == "json" {
			compareCounts(t, format, report.Rules[0], bruteForce("log", read, slidingLog()))
			compareCounts(t, format, report.Rules[1], bruteForce("fixed", read, fixedWindow()))
			continue
		}
		got, want := report.Rules[1], bruteForce("fixed", read, fixedWindow())
		got.PeakBefore, got.PeakAfter, want.PeakBefore, want.PeakAfter = 0, 0, 0, 0 // of the moments that were drawn
		compareCounts(t, format, got, want)
	}
}

func compareCounts(t *testing.T, format string, got, want ruleCounts) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %+v\nwant %+v", format, got, want)
	}
	if want.Refused < want.Offered/100 || want.RefusedKeys < 10 || want.Keys < 1000 {
		t.Errorf("%s: too few to tell: %+v", format, want)
	}
}

func writeLog(t *testing.T, name string, cfg loggen.Config) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := loggen.Write(file, cfg); err != nil {
		t.Fatal(err)
	}
}
