package wire

import (
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

// Charges come off the wire as they went on it, with a limit of the same pointer for the same value, and are no larger than
// was said.
func TestChargesThereAndBack(t *testing.T) {
	var table Table
	pointers := map[tidegate.Limit]*tidegate.Limit{}
	for range 300 {
		var limits []*tidegate.Limit
		for _, text := range []string{
			"10/s burst 20 lease 50ms", "10/s burst 20", "7/s leaky-bucket queue 13", "1000/month tz America/Argentina/Buenos_Aires",
			"100/min sliding-window slices 4", "5/min sliding-log", "20 concurrent ttl 3s", "none", "unlimited",
			"20/s burst 20 warmup 8s", "10000/s burst 1000 shards 8", "281474976710655/s fixed-window",
		} {
			l, err := tidegate.ParseLimit(text)
			if err != nil {
				t.Fatal(err)
			}
			limits = append(limits, &l)
		}
		bytes := func() string {
			b := make([]byte, rand.IntN(30))
			for i := range b {
				b[i] = byte(rand.Uint32())
			}
			return string(b)
		}
		charges := make([]tidegate.Charge, rand.IntN(6))
		size := 0
		for i := range charges {
			charges[i] = tidegate.Charge{
				Rule: bytes(), Key: bytes(), Limit: limits[rand.IntN(len(limits))], Version: rand.Int64(), Cost: int64(rand.Uint64()),
				Shadow: rand.IntN(2) == 0, OnFailure: tidegate.FailurePolicy{Action: tidegate.FailureAction(rand.IntN(3)), Share: rand.Float64()},
				MaxWait: time.Duration(rand.Int64()), ID: bytes(), Hold: time.Duration(rand.Int64()),
			}
			size += Size(&charges[i])
		}
		ls := Limits{NoLease: rand.IntN(2) == 0}
		m := &storev1.SettleRequest{Charges: ls.Charges(nil, charges)}
		m.Limits = ls.All
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > size {
			t.Errorf("%d bytes, where %d were said", len(b), size)
		}
		var read storev1.SettleRequest
		if err := proto.Unmarshal(b, &read); err != nil {
			t.Fatal(err)
		}
		got, err := ReadCharges(nil, read.GetCharges(), table.Read(read.GetLimits()))
		if err != nil || len(got) != len(charges) {
			t.Fatal(got, err)
		}
		for i := range got {
			want := *charges[i].Limit
			if ls.NoLease {
				want.Lease = 0
			}
			if *got[i].Limit != want {
				t.Errorf("%+v, want %+v", *got[i].Limit, want)
			}
			if p := pointers[want]; p != nil && p != got[i].Limit {
				t.Errorf("%+v has two pointers", want)
			}
			pointers[want] = got[i].Limit
			got[i].Limit = charges[i].Limit
			if got[i] != charges[i] {
				t.Errorf("%+v, want %+v", got[i], charges[i])
			}
		}
	}
}

// A client that makes up limits does not make the table grow without bound.
func TestTableIsBounded(t *testing.T) {
	var table Table
	for i := range int64(2*maxKnown + 7) {
		if r := table.Read([]*storev1.Limit{{Rate: i + 1, Per: int64(time.Hour)}}); r[0].Err != nil || r[0].Limit.Rate != i+1 {
			t.Fatal(r)
		}
	}
	if n := len(table.known); n > maxKnown {
		t.Errorf("%d limits are known", n)
	}
}

// Whatever a server answers, it is decisions for all charges or an error.
func FuzzResponse(f *testing.F) {
	b, err := proto.Marshal(&storev1.TakeResult{Decisions: Decisions([]tidegate.Decision{{Allowed: true, Limit: tidegate.NoLimit}}), Failure: Failure(tidegate.ErrNever)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r storev1.TakeResult
		if proto.Unmarshal(b, &r) != nil {
			return
		}
		decisions := make([]tidegate.Decision, 1)
		_ = ReadDecisions(decisions, r.GetDecisions(), []tidegate.Charge{{Rule: "r"}})
		if err := ReadFailure("take", r.GetFailure()); (err == nil) != (r.GetFailure() == nil) {
			t.Fatalf("%v of %v", err, r.GetFailure())
		}
	})
}
