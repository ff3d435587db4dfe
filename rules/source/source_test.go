package source

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPoll: what has changed is delivered, what has not is not, and failures slow it down until it works again.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		bad := errors.New("bad")
		answers := []error{nil, ErrUnchanged, bad, bad, bad, bad, ErrUnchanged, nil}
		var at []time.Duration
		start := time.Now()
		var delivered []string
		err := Poll(ctx, time.Second, 4*time.Second, func(context.Context) (Document, error) {
			n := len(at)
			at = append(at, time.Since(start))
			if n == len(answers) {
				cancel()
				return Document{}, context.Canceled
			}
			return Document{Version: int64(n)}, answers[n]
		}, func(d Document, err error) {
			if err != nil {
				delivered = append(delivered, err.Error())
				return
			}
			delivered = append(delivered, "version "+string(rune('0'+d.Version)))
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if want := []string{"version 0", "bad", "bad", "bad", "bad", ErrUnchanged.Error(), "version 7"}; !slices.Equal(delivered, want) {
			t.Errorf("delivered %q, want %q", delivered, want)
		}
		for i, want := range []float64{1, 1, 2, 4, 4, 4, 1, 1} {
			if pause := (at[i+1] - at[i]).Seconds(); pause < want*4/5 || pause > want*6/5 {
				t.Errorf("pause %d was %vs, want about %vs", i, pause, want)
			}
		}
	})
}

func TestCheckPush(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		by     string
		expect int64
		want   string
	}{
		"good":         {"version: 1", "anna@host", 17, ""},
		"none yet":     {"version: 1", "", 0, ""},
		"any":          {"version: 1", "", AnyVersion, ""},
		"empty":        {" \n", "", 0, "is empty"},
		"long":         {strings.Repeat("#", MaxText+1), "", 0, "at most 4194304"},
		"no text":      {"\xff", "", 0, "not UTF-8"},
		"two lines":    {"version: 1", "a\nb", 0, "one line"},
		"long name":    {"version: 1", strings.Repeat("a", 201), 0, "one line"},
		"bad expected": {"version: 1", "", -2, "cannot be expected"},
	} {
		err := CheckPush([]byte(c.text), c.by, c.expect)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	if !errors.Is(&ReadOnlyError{Origin: "rules.yaml"}, ErrReadOnly) {
		t.Error("a ReadOnlyError is not ErrReadOnly")
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&ReadOnlyError{Origin: "rules.yaml"}, "rules.yaml, which programs cannot change: edit it there"},
		{&ConflictError{Expected: 0, Current: 5}, "there are rules already, version 5"},
		{&ConflictError{Expected: 5, Current: 0}, "no rules any more"},
		{&ConflictError{Expected: 5, Current: 6}, "version 6 is there"},
	} {
		if !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%q does not say %q", c.err, c.want)
		}
	}
	if NextVersion(10, 5) != 10 || NextVersion(5, 10) != 11 {
		t.Error("a version does not grow")
	}
}
