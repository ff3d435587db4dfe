package registry

import (
	"fmt"
	"testing"

	"github.com/tidegate-go/tidegate"
)

const second1 = 1_000_000 // µs

// The steps are those that the script of redisstore takes.
func TestTable(t *testing.T) {
	var tb Table
	beat := func(id string, at int64, n int64) tidegate.Table {
		return tb.Beat(&tidegate.Beat{ID: id, Admitted: map[string]int64{"r": n}, Marker: "m-" + id, Since: 10 * second1}, at)
	}
	steps := []struct {
		id   string
		at   int64
		n    int64
		want string
	}{
		{"a", 10*second1 + 1, 60, "counted true, 1 replicas, 1 reported, second 9: 0 beaten, own 0 of 0, present false"},
		{"a", 10*second1 + 2, 99, "counted false, 1 replicas, 1 reported, second 9: 0 beaten, own 0 of 0, present false"},
		{"b", 10*second1 + 3, 40, "counted true, 2 replicas, 2 reported, second 9: 0 beaten, own 0 of 0, present false"},
		{"a", 11*second1 + 1, 1, "counted true, 2 replicas, 2 reported, second 10: 2 beaten, own 60 of 100, present true"},
		{"c", 11*second1 + 2, 1, "counted true, 3 replicas, 3 reported, second 10: 2 beaten, own 0 of 100, present false"},
		{"a", 14*second1 + 2, 1, "counted true, 2 replicas, 2 reported, second 13: 0 beaten, own 0 of 0, present false"}, // b has expired, c not yet
		{"a", 12 * second1, 1, "counted true, 2 replicas, 2 reported, second 11: 2 beaten, own 1 of 2, present true"},    // the clock was set back
	}
	for i, s := range steps {
		a := beat(s.id, s.at, s.n)
		got := fmt.Sprintf("counted %v, %d replicas, %d reported, second %d: %d beaten, own %d of %d, present %v",
			a.Counted, a.Replicas, a.Reported, a.Second, a.Beaten, a.Own["r"], a.Total["r"], a.Present)
		if got != s.want || a.Now != s.at || a.Marker != "m-a" {
			t.Errorf("step %d: %s, marker %s\nwant    %s", i, got, a.Marker, s.want)
		}
	}
	if a := tb.Beat(&tidegate.Beat{ID: "a", Leave: true}, 12*second1+1); a.Replicas != 1 || a.Counted {
		t.Errorf("after leaving: %+v", a)
	}
	if beaten, rules, ok := tb.Second(12); beaten != 1 || rules != 1 || !ok {
		t.Error(beaten, rules, ok)
	}
	if _, _, ok := tb.Second(10); ok {
		t.Error("a second of long ago is known")
	}
}

// An answer stays what it was while later seconds are written.
func TestAnswersStay(t *testing.T) {
	var tb Table
	beat := func(at int64) tidegate.Table {
		return tb.Beat(&tidegate.Beat{ID: "a", Admitted: map[string]int64{"r": at / second1}, Marker: "m"}, at)
	}
	beat(1 * second1)
	a := beat(2 * second1)
	for at := int64(3); at < 9; at++ {
		beat(at * second1)
	}
	if a.Own["r"] != 1 || a.Total["r"] != 1 {
		t.Errorf("%+v", a)
	}
}
