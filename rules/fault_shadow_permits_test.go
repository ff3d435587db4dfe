package rules

import (
	"context"
	"errors"
	"testing"

	"github.com/tidegate-go/tidegate"
)

// A rule of permits in shadow made every take by attributes that it matched an error, though shadow changes no outcome: not for
// all keys, nor for those that a part is not enforced for.
func TestFaultShadowPermits(t *testing.T) {
	ctx := context.Background()
	for name, rule := range map[string]string{
		"shadow":  `{name: permits, key: [user], limit: 1 concurrent, shadow: true}`,
		"enforce": `{name: permits, key: [user], limit: 1 concurrent, enforce: 0%}`,
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, nil, "version: 1\nrules:\n  - "+rule+"\n  - {name: rate, key: [user], limit: 1/h}\n")
			a := tidegate.AttributeMap{"user": "u"}
			for i := range 2 {
				if d, err := e.Decide(ctx, a, 1); err != nil || d.Allowed != (i == 0) || d.Rule != "rate" {
					t.Errorf("take %d: %+v, %v", i+1, d, err)
				}
			}
			matched, err := e.Match(a, 1, nil)
			if err != nil || len(matched) != 1 || matched[0].Rule.Name != "rate" {
				t.Errorf("%d rules match, %v", len(matched), err)
			}
			if matched, err = e.Match(a, 0, nil); err != nil || len(matched) != 2 {
				t.Errorf("%d rules match a peek, %v", len(matched), err)
			}
			if h, err := e.Acquire(ctx, "permits", []string{"u"}, 1); err != nil || h.ID == "" {
				t.Errorf("acquired %+v, %v", h, err)
			}
			// Who names the rule and takes from it has the wrong verb, and is told.
			if m, err := e.MatchKey("permits", []string{"u"}, 1); !errors.Is(err, tidegate.ErrUnsupported) {
				t.Errorf("matched by name: %+v, %v", m, err)
			}
		})
	}
	e := newEngine(t, nil, "version: 1\nrules:\n  - {name: permits, key: [user], limit: 1 concurrent, enforce: 100%}\n")
	if _, err := e.Decide(ctx, tidegate.AttributeMap{"user": "u"}, 1); !errors.Is(err, tidegate.ErrUnsupported) {
		t.Errorf("enforced: %v", err)
	}
	e = newEngine(t, nil, "version: 1\nrules:\n  - {name: permits, limit: 1 concurrent, shadow: true}\n")
	if d, err := e.Decide(ctx, tidegate.AttributeMap{}, 1); err != nil || !d.Allowed || d.Rule != "" {
		t.Errorf("alone: %+v, %v", d, err)
	}
}
