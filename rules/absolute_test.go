package rules

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var pushed = time.Date(2026, 11, 30, 12, 0, 0, 0, time.FixedZone("x", 3600))

func TestAbsolute(t *testing.T) {
	former := mustParse(t, `
version: 1
rules:
  - {name: a, limit: 10/s}
  - {name: b, limit: unlimited until 2026-12-31T00:00:00Z, then: 7/s}
  - {name: c, key: [user], limit: 3/s, overrides: [{match: {user: x}, limit: 4/s}]}
`)
	in := "\ufeffversion: 1   # a comment\r\nrules:\r\n" + `  - name: a
    limit: unlimited until 3s   # for the launch
  - {name: "ü", limit: 'none UNTIL  2day', then: 5/s}
  - {name: b, limit: {rate: 9/s, until: "1h30m"}}
  -
    name: c
    key: [user]
    limit: 3/s
    overrides:
      - limit: 8/s until 90s burst 9
        match: {user: x}
      - match: {user: y}
        limit: none until 2026-12-24T18:00:00+01:00
  - name: d
    limit: 1/s until 2026-12-24T18:00:00+01:00
    then: 2/s
`
	want := "\ufeffversion: 1   # a comment\r\nrules:\r\n" + `  - then: 10/s
    name: a
    limit: unlimited until 2026-11-30T11:00:03Z   # for the launch
  - {name: "ü", limit: 'none UNTIL  2026-12-02T11:00:00Z', then: 5/s}
  - {then: 7/s, name: b, limit: {rate: 9/s, until: "2026-11-30T12:30:00Z"}}
  -
    name: c
    key: [user]
    limit: 3/s
    overrides:
      - then: 4/s
        limit: 8/s until 2026-11-30T11:01:30Z burst 9
        match: {user: x}
      - then: 3/s
        match: {user: y}
        limit: none until 2026-12-24T18:00:00+01:00
  - name: d
    limit: 1/s until 2026-12-24T18:00:00+01:00
    then: 2/s
`
	got, err := Absolute("f", []byte(in), pushed, former)
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	again, err := Absolute("f", got, pushed.Add(time.Hour), former)
	if err != nil || string(again) != want {
		t.Errorf("a second time: %v\n%s", err, again)
	}
}

func TestAbsoluteRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"version: 1\nrules:\n  - name: new\n    limit: unlimited until 3s\n", `f:4:12: nothing says what counts when the limit has ended`},
		{"version: 1\nrules:\n  - {name: a, limit: 1/x until 3s}\n  - {name: a, limit: 1/s}\n", "f:3:22: limit \"1/x\""},
		{"version: 1\nrules:\n  - {name: a, limit: 1/s until 3 s, then: 1/s}\n", `f:3:22: "until" is "3"`},
		{"version: 1\nrules:\n  - {name: a, limit: 1/s until -3s, then: 1/s}\n", `f:3:22: "until" is "-3s"`},
		{"version: 1\nrules:\n  - name: a\n    limit: >-\n      1/s\n      until 3s\n    then: 1/s\n", `f:4:12: the end of the limit cannot be rewritten`},
	} {
		out, err := Absolute("f", []byte(c.text), pushed, nil)
		if _, ok := errors.AsType[Errors](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s\n%s", err, c.want, out)
		}
	}
}

func TestAbsoluteLeavesAloneWhatHasNoEnd(t *testing.T) {
	in := []byte(one("10/s"))
	if out, err := Absolute("f", in, pushed, nil); err != nil || string(out) != string(in) {
		t.Errorf("%v\n%s", err, out)
	}
}
