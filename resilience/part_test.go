package resilience

import (
	"testing"

	"github.com/tidegate-go/tidegate"
)

func TestParts(t *testing.T) {
	var p Parts
	for _, c := range []struct {
		limit string
		part  float64
		want  string
	}{
		{"600/s burst 100", 0.2, "120/s burst 20"},
		{"600/s burst 100", 1, "600/s burst 100"},
		{"600/s burst 100", 7, "600/s burst 100"},
		{"5/s burst 5", 0.2, "1/s"},
		{"10/min fixed-window", 0.25, "2/min fixed-window"},
		{"10/s leaky-bucket queue 10", 0.5, "5/s leaky-bucket queue 5"},
		{"1000/s burst 1000", 0, "1/s"},
		{"unlimited", 0.2, "unlimited"},
	} {
		l, err := tidegate.ParseLimit(c.limit)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Of(&l, c.part)
		if err != nil || got.String() != c.want {
			t.Errorf("%v of %s: %v, %v, want %s", c.part, c.limit, got, err, c.want)
			continue
		}
		if again, _ := p.Of(&l, c.part); again != got {
			t.Errorf("%v of %s is made twice", c.part, c.limit)
		}
	}
	if _, err := p.Of(&tidegate.Limit{Rate: -1}, 0.5); err == nil {
		t.Error("an invalid limit is accepted")
	}
}

func TestShareOfRule(t *testing.T) {
	s := &Store{cfg: Config{Replicas: 4}}
	if got := s.Share("rule"); got != 0.25 {
		t.Errorf("%v before any table, want 0.25", got)
	}
	s.tables.Store(&tables{{Replicas: 2, Beaten: 2, Own: map[string]int64{"rule": 300}, Total: map[string]int64{"rule": 400}}})
	if got := s.Share("rule"); got != 0.7 {
		t.Errorf("%v with three quarters of the demand, want 0.7", got)
	}
}
