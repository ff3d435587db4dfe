package memstore

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// A denial and a peek leave the bucket as it is, to the last bit: they have no need of a write.
func TestDenialWritesNothing(t *testing.T) {
	for name, text := range algorithms {
		t.Run(name, func(t *testing.T) {
			s, c := open(t, Config{})
			l := limit(t, text)
			charge := tidegate.Charge{Rule: "rule", Key: "key", Limit: l, Cost: 15}
			if l.Algorithm == tidegate.Concurrency {
				charge.ID = "id"
			}
			takeCharge(t, s, charge)
			i := s.idOf(&charge)
			sh := s.shard(i)
			before := sh.state(sh.find(i))
			for _, cost := range []int64{20, 21, 0} {
				c.advance(time.Millisecond)
				asked := charge
				asked.Cost = cost
				takeCharge(t, s, asked)
				full := tidegate.Charge{Rule: "full", Limit: limit(t, "none"), Cost: 1}
				if _, err := s.Take(context.Background(), []tidegate.Charge{asked, full}, nil); err != nil {
					t.Fatal(err)
				}
				if got := sh.state(sh.find(i)); got != before {
					t.Errorf("a cost of %d: the state was %+v and is %+v", cost, before, got)
				}
			}
		})
	}
}
