package grpclimit

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tidegate-go/tidegate"
)

// retrying is the service config of a client that retries whatever may be retried, at once.
const retrying = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.001s",
	"maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`

// counted counts what the decider is asked, so that a test sees the attempts that a client's call makes.
func counted(d tidegate.Decider) (tidegate.Decider, *atomic.Int64) {
	asked := new(atomic.Int64)
	return deciderFunc(func(ctx context.Context, a tidegate.Attributes, cost int64) (tidegate.Decision, error) {
		asked.Add(1)
		return d.Decide(ctx, a, cost)
	}), asked
}

// RB-120: RESOURCE_EXHAUSTED and UNAVAILABLE are retried by clients and meshes at once, which multiplies the load of a server
// that is over its limit. A refusal says in the way that gRPC clients obey when a retry can be of use, and that none can.
func TestFaultRefusalsAreRetriedAtOnce(t *testing.T) {
	retries := grpc.WithDefaultServiceConfig(retrying)
	t.Run("later", func(t *testing.T) {
		d, asked := counted(newLimiter(t, "4/s burst 1", "ip"))
		c := dial(t, serve(t, newServer(t, d, nil), &service{}), nil, retries)
		wantCode(t, call(t, c), codes.OK)
		start := time.Now()
		wantCode(t, call(t, c), codes.OK) // by its second attempt, 250 ms later
		if took := time.Since(start); took < 200*time.Millisecond || asked.Load() != 3 {
			t.Errorf("took %v and %d takes, want 250ms and 3", took, asked.Load())
		}
	})
	t.Run("never", func(t *testing.T) {
		d, asked := counted(newLimiter(t, "4/s burst 1", "ip"))
		c := dial(t, serve(t, newServer(t, d, &ServerConfig{Cost: func(*Call) int64 { return 2 }}), &service{}), nil, retries)
		var trailer metadata.MD
		err := call(t, c, grpc.Trailer(&trailer))
		wantCode(t, err, codes.ResourceExhausted)
		if _, ok := RetryDelay(err); ok {
			t.Error("RetryInfo for what can never pass")
		}
		if quotaOf(t, err) == nil {
			t.Error("no quota failure")
		}
		if len(trailer.Get("retry-after")) != 0 || trailer.Get("grpc-retry-pushback-ms")[0] != "-1" {
			t.Errorf("trailer %v", trailer)
		}
		if asked.Load() != 1 {
			t.Errorf("%d attempts, want 1", asked.Load())
		}
	})
	t.Run("store away", func(t *testing.T) {
		d, asked := counted(always(tidegate.Decision{}, tidegate.ErrClosed))
		c := dial(t, serve(t, newServer(t, d, nil), &service{}), nil, retries)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{}); err == nil {
			t.Fatal("passed")
		}
		if asked.Load() != 1 {
			t.Errorf("%d attempts in half a second, want 1, as the next is due after a second", asked.Load())
		}
	})
}

// RB-134: a wait that does not fit the client's integers became negative there, which is a retry at once.
func TestFaultHugeWaits(t *testing.T) {
	for _, c := range []struct {
		wait     time.Duration
		pushback string
	}{
		{0, "0"},
		{1, "1"},
		{time.Millisecond, "1"},
		{time.Millisecond + 1, "2"},
		{math.MaxInt32 * time.Millisecond, "2147483647"},
		{math.MaxInt32*time.Millisecond + 1, "-1"},
		{50 * 365 * 24 * time.Hour, "-1"},
		{tidegate.Never - 1, "-1"},
		{tidegate.Never, "-1"},
	} {
		if got := pushback(c.wait); got != c.pushback {
			t.Errorf("%v: %s, want %s", c.wait, got, c.pushback)
		}
	}
	g := &gate{}
	r := g.refuse(tidegate.Decision{Limit: 1, RetryAfter: tidegate.Never - 1, ResetAfter: tidegate.Never})
	if d, ok := retryInfo(r.GRPCStatus()); !ok || d != tidegate.Never-1 {
		t.Errorf("the longest wait became %v %v", d, ok)
	}
	if got := r.trailer().Get("retry-after")[0]; got != "2147483647" {
		t.Errorf("retry-after %s", got)
	}
	// What others send.
	for _, d := range []*durationpb.Duration{{Seconds: math.MaxInt64}, {Seconds: math.MinInt64}, {Nanos: -1}, {Seconds: 1, Nanos: -1}, nil} {
		s, err := status.New(codes.Unavailable, "").WithDetails(&errdetails.RetryInfo{RetryDelay: d})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := RetryDelay(s.Err()); got < 0 || !ok && got != 0 {
			t.Errorf("%v became %v %v", d, got, ok)
		}
	}
	if _, ok := RetryDelay(nil); ok {
		t.Error("a delay of no error")
	}
}

// RB-039: what is told of a refusal is of a limit that refused, and the longest wait; of what passed there is nothing.
func TestFaultTellsOfTheRefusingRule(t *testing.T) {
	minute, hour := tidegate.Limit{Rate: 60, Per: time.Minute}, tidegate.Limit{Rate: 1000, Per: time.Hour}
	d := tidegate.Combine(
		[]tidegate.Charge{{Rule: "minute", Limit: &minute}, {Rule: "hour", Limit: &hour}},
		[]tidegate.Decision{
			{Allowed: true, Rule: "minute", Limit: 60, Remaining: 56, ResetAfter: 12 * time.Second},
			{Rule: "hour", Limit: 1000, RetryAfter: 3000 * time.Second, ResetAfter: 3600 * time.Second},
		})
	c := dial(t, serve(t, newServer(t, always(d, nil), nil), &service{}), nil)
	var trailer metadata.MD
	err := call(t, c, grpc.Trailer(&trailer))
	if wait, _ := RetryDelay(err); wait != 3000*time.Second {
		t.Errorf("RetryDelay %v, want 50m", wait)
	}
	if got := trailer.Get("ratelimit"); len(got) != 1 || got[0] != `"hour";r=0;t=3000` {
		t.Errorf("ratelimit %q", got)
	}
	if q := quotaOf(t, err); q.GetQuotaId() != "hour" || q.GetQuotaValue() != 1000 {
		t.Errorf("quota failure %v", q)
	}
}

// A rule's name may be anything, also what neither metadata nor a message can hold.
func TestFaultNamesThatBreakTheStatus(t *testing.T) {
	for _, name := range []string{"a\nb", `say "no"`, "Grüße", "\xff\x00", "", `back\slash`, "100%"} {
		d := tidegate.Decision{Rule: name, Limit: 3, RetryAfter: time.Second}
		c := dial(t, serve(t, newServer(t, always(d, nil), nil), &service{}), nil)
		var trailer metadata.MD
		err := call(t, c, grpc.Trailer(&trailer))
		wantCode(t, err, codes.ResourceExhausted)
		if wait, ok := RetryDelay(err); !ok || wait != time.Second || quotaOf(t, err) == nil {
			t.Errorf("%q: the details are lost: %v", name, err)
		}
		if got := trailer.Get("ratelimit"); len(got) != 1 || got[0] != quoted(name)+";r=0;t=1" {
			t.Errorf("%q: ratelimit %q", name, got)
		}
	}
}
