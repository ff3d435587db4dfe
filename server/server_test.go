package server

import (
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/rules"
)

func TestNewSaysWhatIsWrong(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	good := tidegate.Limit{Rate: 1, Per: time.Second}
	for _, c := range []struct {
		cfg  Config
		says []string
	}{
		{Config{MaxRequests: -1}, []string{"MaxRequests -1"}},
		{Config{DrainTime: -time.Second}, []string{"DrainTime -1s"}},
		{Config{Token: "x\n"}, []string{"token"}},
		{Config{Rules: []Rule{{Limit: good}}}, []string{"the name is empty"}},
		{Config{Rules: []Rule{{Name: "\xff", Limit: good}}}, []string{"UTF-8"}},
		{Config{Rules: []Rule{{Name: "a", Limit: good}, {Name: "a", Limit: good}}}, []string{`a second rule of the name "a"`}},
		{Config{Rules: []Rule{{Name: "a", Limit: good, Key: []string{"user", "user"}}}}, []string{`the part "user" of the key is given twice`}},
		{Config{Rules: []Rule{{Name: "a", Limit: good, Key: []string{""}}}}, []string{"a part of the key is empty"}},
		{Config{Rules: []Rule{ExampleRule()}, Set: &rules.Set{}}, []string{"both"}},
		{Config{Rules: []Rule{{Name: "a"}, {Name: "b", Limit: tidegate.Limit{Rate: -1}}}}, []string{`rule 1, "a"`, `rule 2, "b"`, "at least 1"}},
	} {
		_, err := New(store, &c.cfg)
		for _, text := range c.says {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%+v: the error is %v, want one with %s", c.cfg, err, text)
			}
		}
	}
	if _, err := New(nil, nil); err == nil {
		t.Error("a nil store was accepted")
	}
}
