package wire

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

// Size is about how many bytes a charge takes in a message, and more rather than less.
func Size(c *tidegate.Charge) int {
	return len(c.Rule) + len(c.Key) + len(c.ID) + chargeSize
}

// chargeSize is what the numbers of a charge and the limit that it brings take: 160 at most, and 32 for a time zone.
const chargeSize = 192

// Charges appends messages for charges, whose limits are added to ls.
func (ls *Limits) Charges(dst []*storev1.Charge, charges []tidegate.Charge) []*storev1.Charge {
	messages := make([]storev1.Charge, len(charges)) // one piece of memory for all
	for i := range charges {
		c, m := &charges[i], &messages[i]
		m.Rule = []byte(c.Rule)
		m.Key = []byte(c.Key)
		m.Limit = ls.place(c.Limit)
		m.Version = c.Version
		m.Cost = c.Cost
		m.Shadow = c.Shadow
		m.OnFailure = storev1.FailureAction(c.OnFailure.Action)
		m.FailureShare = c.OnFailure.Share
		m.MaxWait = int64(c.MaxWait)
		m.Id = []byte(c.ID)
		m.Hold = int64(c.Hold)
		dst = append(dst, m)
	}
	return dst
}

// ErrPlace says that a charge refers to a limit that the request does not have, so that the request makes no sense.
var ErrPlace = errors.New("a charge refers to a limit that is not in the request")

// ReadCharges appends the charges of messages. Any error but [ErrPlace] is about these charges alone, and not about the
// rest of the request.
func ReadCharges(dst []tidegate.Charge, messages []*storev1.Charge, limits []Read) ([]tidegate.Charge, error) {
	for _, m := range messages {
		if int64(m.GetLimit()) >= int64(len(limits)) {
			return dst, ErrPlace
		}
	}
	for _, m := range messages {
		read := limits[m.GetLimit()]
		if read.Err != nil {
			return dst, read.Err
		}
		policy, err := readPolicy(m)
		if err != nil {
			return dst, err
		}
		dst = append(dst, tidegate.Charge{
			Rule:      string(m.GetRule()),
			Key:       string(m.GetKey()),
			Limit:     read.Limit,
			Version:   m.GetVersion(),
			Cost:      m.GetCost(),
			Shadow:    m.GetShadow(),
			OnFailure: policy,
			MaxWait:   time.Duration(m.GetMaxWait()),
			ID:        string(m.GetId()),
			Hold:      time.Duration(m.GetHold()),
		})
	}
	return dst, nil
}

func readPolicy(m *storev1.Charge) (tidegate.FailurePolicy, error) {
	action, share := m.GetOnFailure(), m.GetFailureShare()
	if action < 0 || action > storev1.FailureAction(tidegate.FailDeny) {
		return tidegate.FailurePolicy{}, fmt.Errorf("tidegate: unknown failure action %d: use one of the constants of the package", action)
	}
	if math.IsNaN(share) || share < 0 || share > 1 {
		return tidegate.FailurePolicy{}, fmt.Errorf("tidegate: a failure share of %v: it must be from 0 to 1", share)
	}
	return tidegate.FailurePolicy{Action: tidegate.FailureAction(action), Share: share}, nil
}
