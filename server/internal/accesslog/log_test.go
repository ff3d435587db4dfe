package accesslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// open reads a text as a log.
func open(t *testing.T, text string, o Options) *Log {
	t.Helper()
	r, err := Open("-", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	l, err := NewLog(r, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// all returns the times, since 14:04:00, and the paths of what is left in a log.
func all(t *testing.T, next func() (Entry, error)) (at []time.Duration, paths []string) {
	t.Helper()
	for {
		e, err := next()
		if errors.Is(err, io.EOF) {
			return at, paths
		}
		if err != nil {
			t.Fatal(err)
		}
		path, _ := e.Field(Path)
		at = append(at, e.Time.Sub(time.Date(2026, 1, 2, 14, 4, 0, 0, time.UTC)))
		paths = append(paths, path)
	}
}

func TestLinesOutOfOrderAreSorted(t *testing.T) {
	l := open(t, `
ts=2026-01-02T14:04:05.5Z path=/c
ts=2026-01-02T14:04:03.5Z path=/a
ts=2026-01-02T14:04:04.5Z path=/b
ts=2026-01-02T14:04:04.5Z path=/b2
ts=2026-01-02T14:04:16.5Z path=/e
ts=2026-01-02T14:04:06.5Z path=/d
ts=2026-01-02T14:04:27.5Z path=/f
ts=2026-01-02T14:04:01.5Z path=/late
ts=2026-01-02T14:04:40.5Z path=/g
`, Options{})
	at, paths := all(t, l.Next)
	if want := []string{"/a", "/b", "/b2", "/c", "/d", "/e", "/late", "/f", "/g"}; !slices.Equal(paths, want) {
		t.Errorf("%v, want %v", paths, want)
	}
	if !slices.IsSorted(at) || at[6] != 16500*time.Millisecond {
		t.Errorf("%v: the late one belongs at the moment that had come, 16.5 s", at)
	}
	if l.Counts.Late != 1 || l.Counts.Parsed != 9 || l.Counts.Skipped != 0 {
		t.Errorf("%+v", l.Counts)
	}
}

func TestWholeSecondsAreSpread(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "1.2.3.4 - - [02/Jan/2026:14:04:0%d +0000] \"GET /%d HTTP/1.1\" 200 1\n", i/500, i)
	}
	at, paths := all(t, open(t, text.String(), Options{Seed: 7}).Next)
	again, _ := all(t, open(t, text.String(), Options{Seed: 7}).Next)
	other, _ := all(t, open(t, text.String(), Options{Seed: 8}).Next)
	if !slices.Equal(at, again) || slices.Equal(at, other) {
		t.Error("the moments should follow from the seed")
	}
	if !slices.IsSorted(at) || paths[0] != "/0" || paths[999] != "/999" {
		t.Error("lines of one second should keep their order")
	}
	var tenths [20]int
	for i, d := range at {
		if int(d/time.Second) != i/500 {
			t.Fatalf("line %d is at %v", i, d)
		}
		tenths[d/(100*time.Millisecond)]++
	}
	for i, n := range tenths {
		if n < 25 || n > 80 { // 50 each on average; this far off once in 10,000 runs, and the seed is given
			t.Errorf("tenth %d of a second has %d of 1000", i, n)
		}
	}
}

// Lines of one second that are not in a row, and those of two logs, are at moments of their own.
func TestSecondsThatTakeTurnsAreSpread(t *testing.T) {
	var text strings.Builder
	for i := range 400 {
		fmt.Fprintf(&text, "1.2.3.4 - - [02/Jan/2026:14:04:0%d +0000] \"GET /%d HTTP/1.1\" 200 1\n", i%2, i)
	}
	moments := map[time.Duration]int{}
	for stream := range uint64(2) {
		at, _ := all(t, open(t, text.String(), Options{Stream: stream}).Next)
		for _, d := range at {
			moments[d]++
		}
	}
	if len(moments) < 795 {
		t.Errorf("800 lines are at %d moments", len(moments))
	}
}

func TestRequestsAreMovedToTheirStart(t *testing.T) {
	const lines = "ts=2026-01-02T14:04:05.5Z path=/slow took_ms=2500\nts=2026-01-02T14:04:04.5Z path=/fast took_ms=1\nts=2026-01-02T14:04:05.6Z path=/none took_ms=-\n"
	at, paths := all(t, open(t, lines, Options{DurationField: "took_ms"}).Next)
	if !slices.Equal(paths, []string{"/slow", "/fast", "/none"}) || at[0] != 3*time.Second || at[1] != 4499*time.Millisecond {
		t.Errorf("%v %v", at, paths)
	}
	for field, want := range map[string]time.Duration{"d": 1500 * time.Millisecond, "d=ms": 1500 * time.Microsecond, "d=us": 1500 * time.Nanosecond} {
		l := open(t, "ts=2026-01-02T14:04:10Z d=1.5\n", Options{DurationField: field, Seed: 1})
		l.second = nil
		e, err := l.Next()
		if err != nil {
			t.Fatal(err)
		}
		plain, _ := open(t, "ts=2026-01-02T14:04:10Z d=1.5\n", Options{Seed: 1}).Next()
		if got := plain.Time.Sub(e.Time); got != want {
			t.Errorf("%s: moved by %v, want %v", field, got, want)
		}
	}
	if _, _, err := durationField("d=weeks"); err == nil {
		t.Error("a unit of weeks is taken")
	}
	// Envoy writes when the request began: nothing is taken off that.
	e, err := open(t, `[2026-01-02T14:04:05.250Z] "GET /a HTTP/1.1" 200 - 0 12 700 6 "-" "c" "i" "h" "u"`, Options{DurationField: "duration_ms"}).Next()
	if err != nil || e.Time.UnixMilli()%1000 != 250 {
		t.Errorf("%v, %v", e.Time, err)
	}
}

// Lines that could not be moved are counted, and those that took longer than the window and so stand later than their start.
func TestRequestsThatAreNotMovedAreCounted(t *testing.T) {
	for text, want := range map[string]Counts{
		"took=1.5":       {Moved: 1},
		"took=2ms":       {Moved: 1},
		"took=0":         {Moved: 1},
		"other=1":        {Unmoved: 1},
		"took=-":         {Unmoved: 1},
		"took=-1":        {Unmoved: 1},
		"took=NaN":       {Unmoved: 1},
		"took=90000":     {Unmoved: 1}, // more than a day
		`took="0.1, 20"`: {Unmoved: 1},
	} {
		l := open(t, "ts=1767362640.5 "+text+"\n", Options{DurationField: "took"})
		if _, err := l.Next(); err != nil {
			t.Fatal(err)
		}
		want.Parsed = 1
		if got := l.Counts; got.Moved != want.Moved || got.Unmoved != want.Unmoved {
			t.Errorf("%s: %+v", text, got)
		}
	}
	l := open(t, "ts=1767362640.5 took=1\nts=1767362650.5 took=1\nts=1767362662.5 took=1\nts=1767362662.6 took=15\nts=1767362640.5 took=1\n", Options{DurationField: "took"})
	at, _ := all(t, l.Next)
	if c := l.Counts; len(at) != 5 || c.Late != 2 || c.Long != 1 || c.Moved != 5 || c.Unmoved != 0 {
		t.Errorf("%v, %+v", at, c)
	}
	// Envoy's lines are at their start: there is nothing to move.
	l = open(t, `[2026-01-02T14:04:05.250Z] "GET /a HTTP/1.1" 200 - 0 12 700 6 "-" "c" "i" "h" "u"`, Options{DurationField: "none"})
	all(t, l.Next)
	if c := l.Counts; c.Parsed != 1 || c.Moved != 0 || c.Unmoved != 0 {
		t.Errorf("%+v", c)
	}
}

// Long lines that wait for earlier ones are bounded by what they take, not by their number alone; and so are those that wait to be
// spread over a second, and to be merged.
func TestLongLinesAreHeldInBoundedMemory(t *testing.T) {
	for _, at := range []string{"1767362640.5", "1767362640"} { // all of one moment, or of one second
		in, out := io.Pipe()
		go func() {
			pad := strings.Repeat("x", maxLine-100)
			for range 220 {
				if _, err := io.WriteString(out, "ts="+at+" path=/ pad="+pad+"\n"); err != nil {
					return
				}
			}
			out.Close()
		}()
		r, err := Open("-", in)
		if err != nil {
			t.Fatal(err)
		}
		l, err := NewLog(r, Options{})
		if err != nil {
			t.Fatal(err)
		}
		const most = 200 << 20
		n := 0
		for {
			if _, err := l.Next(); err != nil {
				break
			}
			n++
			size := l.inSecond
			for i := range l.held {
				size += l.held[i].size
			}
			if size > most || len(l.held) != 0 && l.heldSize == 0 {
				t.Fatalf("%d bytes wait, of %d lines; %d are counted", size, len(l.held), l.heldSize)
			}
		}
		if n != 220 || l.heldSize != 0 || l.inSecond != 0 {
			t.Errorf("%s: %d lines, %d and %d bytes still wait", at, n, l.heldSize, l.inSecond)
		}
	}
	m := Merge(context.Background(), []*Log{open(t, strings.Repeat("ts=1767362640.5 path=/ pad="+strings.Repeat("x", 1<<19)+"\n", 40), Options{})})
	defer m.Close()
	for n := 0; ; n++ {
		if m.Next() == nil {
			if n != 40 {
				t.Errorf("%d lines", n)
			}
			return
		}
		if most := len(m.all[0].ready); most > 2 {
			t.Errorf("%d long lines at a time", most+1)
		}
	}
}

func TestBadLinesAreCounted(t *testing.T) {
	text := strings.Repeat("ts=2026-01-02T14:04:05.5Z path=/\n", 10) + "junk\n\n" + strings.Repeat("x", maxLine+10) + "\nts=2026-01-02T14:04:05.5Z path=/"
	l := open(t, text, Options{})
	at, _ := all(t, l.Next)
	c := l.Counts
	if len(at) != 11 || c.Parsed != 11 || c.Skipped != 2 || len(c.Bad) != 2 {
		t.Fatalf("%d requests, %+v", len(at), c)
	}
	if got := c.Bad[0].Error(); got != "stdin:11: there is no time in it: a key such as time, ts or timestamp (or name it with --map time=…)" {
		t.Error(got)
	}
	if got := c.Bad[1].Error(); got != "stdin:13: the line is longer than 1 MiB" {
		t.Error(got)
	}
}

// packed writes the text three ways.
func packed(t *testing.T, dir, text string) []string {
	t.Helper()
	var gz, zst bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	e, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = e.Write([]byte(text))
	_ = e.Close()
	var names []string
	for name, content := range map[string][]byte{"plain.log": []byte("\xef\xbb\xbf" + strings.ReplaceAll(text, "\n", "\r\n")), "log.gz": gz.Bytes(), "log.zst": zst.Bytes()} {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func TestPackedFilesAreMerged(t *testing.T) {
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "ts=%d.%03d path=/%d\n", 1767362640+i/1000, i%1000, i)
	}
	var logs []*Log
	for _, name := range packed(t, t.TempDir(), text.String()) {
		r, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		l, err := NewLog(r, Options{})
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	m := Merge(context.Background(), logs)
	defer m.Close()
	at, paths := all(t, func() (Entry, error) {
		if e := m.Next(); e != nil {
			return *e, nil
		}
		return Entry{}, io.EOF
	})
	m.Close()
	if c := m.Counts(); len(at) != 9000 || c.Parsed != 9000 || c.Skipped != 0 || m.Err() != nil {
		t.Fatalf("%d requests, %+v, %v", len(at), c, m.Err())
	}
	if !slices.IsSorted(at) || paths[0] != "/0" || paths[8999] != "/2999" {
		t.Error("the files are not merged by time")
	}
	if read, size := logs[0].r.Progress(); read == 0 || size == 0 {
		t.Errorf("progress: %d of %d bytes", read, size)
	}
}

// A reader that is left in the middle ends its goroutines.
func TestMergedIsClosedEarly(t *testing.T) {
	m := Merge(context.Background(), []*Log{open(t, strings.Repeat("ts=1767362640.5 path=/\n", 100_000), Options{})})
	if m.Next() == nil {
		t.Fatal("no request")
	}
	m.Close()
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	cut := packed(t, dir, strings.Repeat("ts=1767362640.5 path=/\n", 10_000))
	for _, name := range cut {
		if strings.HasSuffix(name, ".gz") {
			b, _ := os.ReadFile(name)
			if err := os.WriteFile(name, b[:len(b)/2], 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Open(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
			for err == nil {
				_, _, err = r.Next()
			}
			if !strings.Contains(err.Error(), "cut short after line") {
				t.Error(err)
			}
		}
	}
	for name, want := range map[string]string{
		dir:                          "is a directory",
		filepath.Join(dir, "none"):   "no such file",
		write("bin", "a\x00b"):       "binary",
		write("bad.gz", "\x1f\x8bx"): "broken gzip",
	} {
		if r, err := Open(name, nil); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// A log without a line is empty, whatever its format is said to be; one that only begins with many empty lines is not, and their
// numbers count.
func TestEmptyLogs(t *testing.T) {
	for _, format := range []string{"auto", "logfmt", "$msec $request_uri"} {
		for _, text := range []string{"", "\n", " \t\r\n\n", strings.Repeat("\n", 200_000) + "  ", "\xef\xbb\xbf", "\xef\xbb\xbf\n"} {
			r, err := Open("-", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := NewLog(r, Options{Format: format}); !errors.Is(err, ErrEmpty) {
				t.Errorf("%s, %d bytes: %v", format, len(text), err)
			}
		}
	}
	l := open(t, strings.Repeat("\n", 100_000)+"  ts=1767362640.5 path=/\njunk\n", Options{})
	at, _ := all(t, l.Next)
	if len(at) != 1 || l.Counts.Skipped != 1 || l.Counts.Bad[0].Line != 100_002 {
		t.Errorf("%d requests, %+v", len(at), l.Counts)
	}
}

func BenchmarkRead(b *testing.B) {
	for name, line := range map[string]string{
		"combined": `203.0.113.9 - - [02/Jan/2026:15:04:05 +0100] "GET /a/b?c=d HTTP/1.1" 200 1234 "https://e.org/" "Mozilla/5.0 (X11; Linux x86_64)"`,
		"json":     `{"ts":1767362645.25,"remote_ip":"203.0.113.9","method":"GET","host":"e.org","uri":"/u?v=w","duration":0.0012,"status":200}`,
		"logfmt":   `time=2026-01-02T14:04:05.25Z method=GET path="/a b?c" status=200 dur=12ms`,
	} {
		b.Run(name, func(b *testing.B) {
			newFormat, err := Named(name, "")
			if err != nil {
				b.Fatal(err)
			}
			f := newFormat()
			b.ReportAllocs()
			for b.Loop() {
				var e Entry
				if err := f.Read(line, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What comes through a pipe is given as it comes; and one who has enough need not wait for what the pipe may still bring.
func TestPipe(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	go func() { _, _ = io.WriteString(out, "ts=1767362640.5 path=/a\nts=1767362660.5 path=/b\n") }()
	r, err := Open("-", in)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLog(r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := Merge(ctx, []*Log{l})
	if e := m.Next(); e == nil || e.Time.Unix() != 1767362640 { // the other may be out of order
		t.Fatalf("%+v", e)
	}
	time.AfterFunc(10*time.Millisecond, cancel)
	if e := m.Next(); e != nil || !errors.Is(m.Err(), context.Canceled) {
		t.Errorf("%+v, %v", e, m.Err())
	}
	m.Close()
	if c := m.Counts(); c.Parsed < 1 || c.Parsed > 2 {
		t.Errorf("%+v", c)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
