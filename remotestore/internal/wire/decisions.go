package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

// Decisions returns messages for decisions.
func Decisions(decisions []tidegate.Decision) []*storev1.Decision {
	messages := make([]storev1.Decision, len(decisions))
	list := make([]*storev1.Decision, len(decisions))
	for i := range decisions {
		d, m := &decisions[i], &messages[i]
		m.Allowed = d.Allowed
		m.Source = storev1.Source(d.Source)
		m.Limit = d.Limit
		m.Remaining = d.Remaining
		m.RetryAfter = int64(d.RetryAfter)
		m.ResetAfter = int64(d.ResetAfter)
		m.Delay = int64(d.Delay)
		list[i] = m
	}
	return list
}

var errDecisions = errors.New("the server's answer has not one decision for each charge")

// ReadDecisions fills in the decisions of messages for charges, of which there are as many.
func ReadDecisions(dst []tidegate.Decision, messages []*storev1.Decision, charges []tidegate.Charge) error {
	if len(messages) != len(charges) || len(dst) != len(charges) {
		return errDecisions
	}
	for i, m := range messages {
		source := m.GetSource()
		if source < 0 || source > storev1.Source(tidegate.SourceShadow) {
			return fmt.Errorf("the server's answer has an unknown source %d", source)
		}
		dst[i] = tidegate.Decision{ //nolint:gosec // there are as many of each: see above
			Allowed:    m.GetAllowed(),
			Source:     tidegate.Source(source),
			Limit:      m.GetLimit(),
			Remaining:  m.GetRemaining(),
			RetryAfter: time.Duration(m.GetRetryAfter()),
			ResetAfter: time.Duration(m.GetResetAfter()),
			Delay:      time.Duration(m.GetDelay()),
			Rule:       charges[i].Rule, //nolint:gosec // the same
		}
	}
	return nil
}
