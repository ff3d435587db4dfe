package storeservice

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "the-token-of-the-tests"

func newService(tb testing.TB, cfg Config) *Service {
	tb.Helper()
	if cfg.Store == nil {
		m := memstore.New(nil)
		tb.Cleanup(func() { m.Close() })
		cfg.Store = m
	}
	s, err := New(&cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// with returns a context as a call has it that sends these values.
func with(ctx context.Context, values ...string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.MD{"authorization": values})
}

func TestAuthorize(t *testing.T) {
	set, unset := newService(t, Config{Token: secret}), newService(t, Config{})
	for _, v := range []struct {
		s    *Service
		ctx  context.Context
		want codes.Code
	}{
		{set, with(t.Context(), "Bearer "+secret), codes.OK},
		{set, with(t.Context(), "bearer  "+secret), codes.OK},
		{set, with(t.Context(), "Bearer "+secret+" "), codes.Unauthenticated},
		{set, with(t.Context(), "Bearer "), codes.Unauthenticated},
		{set, with(t.Context(), "Bearer"), codes.Unauthenticated},
		{set, with(t.Context(), secret), codes.Unauthenticated},
		{set, with(t.Context(), "Basic "+secret), codes.Unauthenticated},
		{set, with(t.Context(), "Bearer "+secret, "Bearer "+secret), codes.Unauthenticated},
		{set, t.Context(), codes.Unauthenticated},
		{unset, with(t.Context(), "Bearer "), codes.PermissionDenied},
		{unset, with(t.Context(), "Bearer "+secret), codes.PermissionDenied},
		{unset, t.Context(), codes.PermissionDenied},
	} {
		_, err := v.s.Now(v.ctx, &storev1.NowRequest{})
		if status.Code(err) != v.want {
			t.Errorf("%v, want %v", err, v.want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%v tells the token", err)
		}
	}
}

func tenPerSecond() *storev1.Limit {
	return &storev1.Limit{Rate: 10, Per: int64(time.Second)}
}

// What is too much or makes no sense is refused before anything of it has run.
func TestWhatIsRefused(t *testing.T) {
	m := memstore.New(nil)
	defer m.Close()
	s := newService(t, Config{Store: m, Token: secret})
	ctx := with(t.Context(), "Bearer "+secret)
	good := &storev1.Charges{Charges: []*storev1.Charge{{Key: []byte("k"), Cost: 1}}}
	takes := make([]*storev1.Charges, MaxTakes+1)
	for i := range takes {
		takes[i] = good
	}
	charges := make([]*storev1.Charge, MaxCharges+1)
	for i := range charges {
		charges[i] = good.GetCharges()[0]
	}
	limits := []*storev1.Limit{tenPerSecond()}
	for name, r := range map[string]*storev1.TakeRequest{
		"too many takes":   {Limits: limits, Takes: takes},
		"too many charges": {Limits: limits, Takes: []*storev1.Charges{{Charges: charges}}},
		"too many limits":  {Limits: make([]*storev1.Limit, MaxCharges+1), Takes: takes[:1]},
		"no such limit":    {Limits: limits, Takes: []*storev1.Charges{good, {Charges: []*storev1.Charge{{Limit: 1, Cost: 1}}}}},
		"no limits":        {Takes: takes[:1]},
	} {
		if reply, err := s.Take(ctx, r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, %v", name, reply, err)
		}
	}
	for name, r := range map[string]*storev1.ResetRequest{
		"too many charges": {Limits: limits, Charges: charges},
		"no such limit":    {Charges: charges[:1]},
	} {
		if reply, err := s.Reset(ctx, r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, %v", name, reply, err)
		}
	}
	if n := m.Stats().Keys; n != 0 {
		t.Errorf("%d buckets were made", n)
	}
	for _, cfg := range []*Config{nil, {}, {Store: m, Together: -1}, {Store: m, Together: MaxTakes + 1}, {Store: m, MaxTime: -1}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v is a config", cfg)
		}
	}
}

// slow waits for the end of the context.
type slow struct{ tidegate.Store }

func (slow) Take(ctx context.Context, _ []tidegate.Charge, _ []tidegate.Decision) ([]tidegate.Decision, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A call ends in time, whatever its client allows, and takes with it what it began.
func TestMaxTime(t *testing.T) {
	s := newService(t, Config{Store: slow{}, Token: secret, MaxTime: 10 * time.Millisecond, Together: 8})
	r := &storev1.TakeRequest{Limits: []*storev1.Limit{tenPerSecond()}}
	for range 20 {
		r.Takes = append(r.Takes, &storev1.Charges{Charges: []*storev1.Charge{{Cost: 1}}})
	}
	reply, err := s.Take(with(t.Context(), "Bearer "+secret), r)
	if err != nil || len(reply.GetResults()) != 20 {
		t.Fatal(reply, err)
	}
	for _, x := range reply.GetResults() {
		if f := x.GetFailure(); f.GetKind() != storev1.Failure_KIND_STORE || !strings.Contains(f.GetMessage(), "deadline") {
			t.Errorf("%v", f)
		}
	}
}

// broken panics, as a store with a slip in it does.
type broken struct{ tidegate.Store }

func (broken) Take(context.Context, []tidegate.Charge, []tidegate.Decision) ([]tidegate.Decision, error) {
	panic("a slip")
}

// A panic comes out where the server of the call can catch it, also of takes that were asked beside.
func TestPanic(t *testing.T) {
	for _, together := range []int{1, 8} {
		s := newService(t, Config{Store: broken{}, Token: secret, Together: together})
		take := &storev1.Charges{Charges: []*storev1.Charge{{Cost: 1}}}
		r := &storev1.TakeRequest{Limits: []*storev1.Limit{tenPerSecond()}, Takes: []*storev1.Charges{take, take}}
		func() {
			defer func() {
				if p := recover(); p != "a slip" {
					t.Errorf("%v", p)
				}
			}()
			_, _ = s.Take(with(t.Context(), "Bearer "+secret), r)
		}()
	}
}
