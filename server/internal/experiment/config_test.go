package experiment

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

func newConfig(change func(*Config)) *Config {
	c := &Config{
		Store: Auto, Replicas: 3, Skew: []float64{60, 25, 15}, Limit: limit600, Offered: 2000, Duration: 12 * time.Second,
		Loads: []Load{Steady}, Scenarios: Scenarios, Fault: Kill,
	}
	if change != nil {
		change(c)
	}
	return c
}

func TestPlan(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"local steady, shared steady, outage steady":                                                       nil,
		"local steady, local pulse, local legal, shared steady, shared pulse, shared legal, outage steady": func(c *Config) { c.Loads = Loads },
		"outage steady": func(c *Config) { c.Loads, c.Scenarios = []Load{Pulse}, []Scenario{Outage} },
		"shared legal": func(c *Config) {
			c.Loads, c.Scenarios, c.Store = []Load{Legal}, []Scenario{Shared}, "redis://localhost"
		},
	} {
		plans, err := newConfig(change).Plan()
		var names []string
		for _, p := range plans {
			names = append(names, string(p.Scenario)+" "+string(p.Load))
		}
		if got := strings.Join(names, ", "); err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	limit := func(text string) func(*Config) {
		l, err := tidegate.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		return func(c *Config) { c.Limit = l }
	}
	for _, c := range []struct {
		change      func(*Config)
		field, text string
	}{
		{func(c *Config) { c.Store = "memory" }, "store", `write auto, or a URL`},
		{func(c *Config) { c.Store = "redis://localhost" }, "store", "needs one of its own"},
		{func(c *Config) { c.Replicas, c.Skew = 0, nil }, "replicas", "0 is not from 1 to 32"},
		{func(c *Config) { c.Replicas = 33 }, "replicas", "33 is not from 1 to 32"},
		{func(c *Config) { c.Skew = []float64{1, 2} }, "skew", "2 parts of the load for 3 replicas"},
		{func(c *Config) { c.Skew = []float64{1, -2, 3} }, "skew", "a part of -2"},
		{func(c *Config) { c.Skew = []float64{0, 0, 0} }, "skew", "all 0"},
		{func(c *Config) { c.Offered = 0 }, "offered", "from 1 to 20000"},
		{func(c *Config) { c.Offered = 20_001 }, "offered", "from 1 to 20000"},
		{func(c *Config) { c.Duration = time.Second }, "duration", "from 2s"},
		{func(c *Config) { c.Duration = time.Hour }, "duration", "to 10m0s"},
		{func(c *Config) { c.Duration = 8 * time.Second }, "duration", "too short for an outage"},
		{func(c *Config) { c.Duration, c.Loads, c.Scenarios = 2*time.Second, Loads, []Scenario{Shared} }, "duration", "too short for a pulse"},
		{func(c *Config) { c.Fault = "flood" }, "fault", "write kill or stop"},
		{func(c *Config) { c.Loads = nil }, "scenario", "nothing to run"},
		{func(c *Config) { c.Limit = tidegate.Limit{} }, "limit", ""},
		{limit("10 concurrent"), "limit", "is not a rate"},
		{limit("unlimited"), "limit", "is not a rate"},
		{limit("10/s leaky-bucket queue 5"), "limit", "lets requests wait"},
		{limit("2/day fixed-window"), "limit", "cannot be divided among 3 replicas"},
		{func(c *Config) { limit("60/min")(c); c.Loads = Loads }, "limit", "too few for the load legal"},
	} {
		plans, err := newConfig(c.change).Plan()
		field, ok := errors.AsType[*FieldError](err)
		if !ok || field.Field != c.field || !strings.Contains(err.Error(), c.text) || plans != nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s: %s", err, c.field, c.text)
		}
	}
}

// People divide the rate, and leave each replica the burst.
func TestLocalLimit(t *testing.T) {
	for text, want := range map[string]string{
		"600/s burst 100":            "200/s burst 100",
		"100/s burst 10":             "100/3s burst 10",
		"300/min sliding-window":     "100/min sliding-window",
		"400/min sliding-log":        "133/min sliding-log",
		"600/s burst 90 shards 3":    "200/s burst 90",
		"600/s burst 100 lease 50ms": "200/s burst 100",
	} {
		l, err := tidegate.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		p := Plan{Config: newConfig(func(c *Config) { c.Limit = l })}
		if got, err := p.localLimit(); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}
