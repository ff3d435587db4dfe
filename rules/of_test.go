package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

func TestOf(t *testing.T) {
	second := tidegate.Limit{Rate: 10, Per: time.Second}
	s, err := Of(Rule{Name: "a: b", Limit: Limit{Limit: second}, Key: []string{"user"}, Match: Match{{Attribute: "path", Patterns: []string{"*/x"}}},
		Overrides: []Override{{Match: Match{{Attribute: "user", Patterns: []string{"null", "!a"}}}, Limit: Limit{Limit: second, Until: pushed, Then: second}}},
		Tighten:   []Tighten{{"true", 0.5}}},
		Rule{Name: "true", Limit: Limit{Limit: second}, Breaker: &Breaker{FailureRatio: 0.5, Window: time.Second, MinimumCalls: 1, OpenTime: time.Second, HalfOpenCalls: 1}})
	if err != nil {
		t.Fatal(err)
	}
	r := s.Rule("a: b")
	if r.Enforce != 1 || r.Cost.Times != 1 || !r.Match.holds(attrs{"path": "a/x"}) || !r.Overrides[0].Limit.Until.Equal(pushed) || s.Rule("true").Breaker.Ramp != 0 {
		t.Errorf("got %+v", r)
	}
	checkMarshal(t, s)
	for _, c := range []struct {
		rules []Rule
		want  string
	}{
		{nil, "there are no rules"},
		{[]Rule{{Name: "a", Limit: Limit{Limit: second}}, {Name: "a", Limit: Limit{Limit: second}}}, "a second rule"},
		{[]Rule{{Name: "a"}}, "the rate is 0"},
		{[]Rule{{Name: "\xff", Limit: Limit{Limit: second}}}, "UTF-8"},
		{[]Rule{{Name: "a\nb", Limit: Limit{Limit: second}}}, "control character"},
		{[]Rule{{Name: "a", Key: []string{"x", "x"}, Limit: Limit{Limit: second}}}, "given twice"},
	} {
		_, err := Of(c.rules...)
		if _, ok := errors.AsType[Errors](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
