package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/memstore"
)

// tell tells a story to a store in memory.
func tell(t *testing.T, input string) (string, error) {
	t.Helper()
	s := begin()
	s.store = memstore.New(&memstore.Config{Now: s.clock})
	defer s.end(t)
	return s.tell(input)
}

// A story that cannot be told is an error, and not a transcript with something left out.
func TestBadLines(t *testing.T) {
	for _, test := range []struct{ input, want string }{
		{"sing", `unknown command "sing"`},
		{"limit 10/fortnight", "fortnight"},
		{"limit 10/s\nlimit 5/s", "set-limit changes it"},
		{"set-limit 5/s", "limit gives a rule its first limit"},
		{"take", `nobody has said what the limit of "limit" is`},
		{"limit 10/s\ntake user/k", `nobody has said what the limit of "user" is`},
		{"limit 10/s\ntake n=x", "invalid syntax"},
		{"limit 10/s\ntake cost=3", `there is no "cost"`},
		{"limit 10/s\ntake id=a", "take has no id"},
		{"limit 10/s\ntake limit/k?*3", "the cost comes before the shadow"},
		{"limit 10/s\nrefund", "refund needs n"},
		{"limit 10/s\nreserve n=3", "reserve needs id"},
		{"limit 10/s\ncancel id=a n=3", "cancel has no n"},
		{"limit 10/s\npeek n=3", "peek has no n"},
		{"limit 10/s\nplot for=1s", "plot needs every"},
		{"limit 10/s\nplot for=1h every=1ms", "at most 110 takes"},
		{"at 1s\nat 999ms", "that was 1ms ago"},
		{"at noon", `"noon" is not a time`},
		{"after -1s", `"-1s" is not a time to pass`},
		{"at 1s\nbegin 2100-01-01 00:00 UTC", "before anything else"},
		{"begin 2100-01-01 00:00 Mars/Olympus", "Mars/Olympus"},
		{"clock back", "invalid duration"},
	} {
		text, err := tell(t, test.input)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: the error is %v, want %q; it told\n%s", test.input, err, test.want, text)
		}
	}
}

// Time passes only where the story says so, and the clock steps without it.
func TestTime(t *testing.T) {
	s := begin()
	for _, test := range []struct {
		line, stamp, clock string
	}{
		{"at 1.5s", "1.5s", "00:00:01.5"},
		{"after 500ms", "2s", "00:00:02"},
		{"clock -2s", "2s", "00:00:00"},
		{"after 1m", "1m2s", "00:01:00"},
		{"at 2h", "2h", "01:59:58"},
	} {
		if _, err := s.tell(test.line); err != nil {
			t.Fatal(err)
		}
		if s.timestamp() != test.stamp || s.clock().UTC().Format("15:04:05.999") != test.clock {
			t.Errorf("%s: it is %s and the clock says %s, want %s and %s", test.line, s.timestamp(), s.clock().UTC(), test.stamp, test.clock)
		}
	}
}

// The example of the package's documentation is what is told.
func TestTranscript(t *testing.T) {
	got, err := tell(t, "limit 10/s burst 20\n# twenty at once\ntake n=20\nafter 100ms take\n\n  peek  \n")
	want := `0s     limit 10/s burst 20
0s     take n=20  allowed, 0 of 20 left, reset in 2s
100ms  take       allowed, 0 of 20 left, reset in 2s
100ms  peek       denied, retry in 100ms, 0 of 20 left, reset in 2s
`
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestPlot(t *testing.T) {
	points := []point{{20, true}, {19, true}, {10, true}, {1, true}, {0, true}, {0, false}}
	got := strings.Join(draw(points, 20, time.Second), "\n")
	want := `20 |*
18 | *
16 |
14 |
12 |
10 |  *
 8 |
 6 |
 4 |
 2 |
 0 |   **x
   +------
    0s`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
