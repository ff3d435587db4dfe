package storeservice

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

// Whatever comes off the wire, there is an answer that can be sent: a status, or a result for each take.
func FuzzRequest(f *testing.F) {
	seed := func(m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	charge := &storev1.Charge{Rule: []byte("r"), Key: []byte("k\xff"), Cost: 1, MaxWait: 1, Id: []byte("id"), Hold: 1}
	seed(&storev1.TakeRequest{Limits: []*storev1.Limit{tenPerSecond()}, Takes: []*storev1.Charges{{Charges: []*storev1.Charge{charge}}, {}}})
	seed(&storev1.TakeRequest{Limits: []*storev1.Limit{{Algorithm: 77, Calendar: -1, Slices: -1, Shards: 1 << 60}}, Takes: []*storev1.Charges{{Charges: []*storev1.Charge{charge}}}})
	seed(&storev1.SettleRequest{Limits: []*storev1.Limit{{Algorithm: storev1.Algorithm_ALGORITHM_CONCURRENCY, Rate: 3}}, Charges: []*storev1.Charge{charge}, Id: []byte("id"), Cost: -1})
	s := newService(f, Config{Token: secret, Together: 2})
	ctx := with(f.Context(), "Bearer "+secret)
	f.Fuzz(func(t *testing.T, b []byte) {
		var take storev1.TakeRequest
		if proto.Unmarshal(b, &take) == nil {
			reply, err := s.Take(ctx, &take)
			if err == nil && len(reply.GetResults()) != len(take.GetTakes()) {
				t.Fatalf("%d results for %d takes", len(reply.GetResults()), len(take.GetTakes()))
			}
			for i, r := range reply.GetResults() {
				if (r.GetFailure() == nil) != (len(r.GetDecisions()) == len(take.GetTakes()[i].GetCharges())) {
					t.Fatalf("%v is the result of %v", r, take.GetTakes()[i])
				}
			}
			sendable(t, reply)
		}
		var settle storev1.SettleRequest
		if proto.Unmarshal(b, &settle) == nil {
			reply, _ := s.Settle(ctx, &settle)
			sendable(t, reply)
		}
		var reset storev1.ResetRequest
		if proto.Unmarshal(b, &reset) == nil {
			reply, _ := s.Reset(ctx, &reset)
			sendable(t, reply)
		}
	})
}

func sendable(t *testing.T, m proto.Message) {
	t.Helper()
	if _, err := proto.Marshal(m); err != nil {
		t.Fatal(err)
	}
}
