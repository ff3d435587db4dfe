package rules

import (
	"testing"
	"testing/synctest"
	"time"
)

// A refusal carried limit, remaining and reset of a rule that had passed, so that clients came back every 12 s for the rest
// of an hour (agentgateway/agentgateway#3328).
func TestFaultDescribesRuleThatPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10 * time.Minute) // into the hour
		e := newEngine(t, nil, `
version: 1
rules:
  - {name: r, limit: 60/min fixed-window}
  - {name: s, key: [user], limit: 4/h fixed-window}
  - {name: free, limit: unlimited}
`)
		a := attrs{"user": "u"}
		for range 4 {
			decide(t, e, a, 1)
		}
		d := decide(t, e, a, 1)
		if d.Allowed || d.Rule != "s" || d.Remaining != 0 || d.RetryAfter != 50*time.Minute {
			t.Errorf("got %+v", d)
		}
	})
}
