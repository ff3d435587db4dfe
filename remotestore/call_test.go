package remotestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/storeservice"
)

// afterwards lets each call run, and then answers it with a status.
func afterwards(f func() error) grpc.ServerOption {
	return grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		reply, err := handle(ctx, r)
		if late := f(); late != nil {
			return nil, late
		}
		return reply, err
	})
}

// failing answers every operation with an error.
type failing struct {
	tidegate.Store
	err error
}

func (s *failing) Take(context.Context, []tidegate.Charge, []tidegate.Decision) ([]tidegate.Decision, error) {
	return nil, s.err
}
func (s *failing) Settle(context.Context, string, []tidegate.Charge, int64) error { return s.err }
func (s *failing) Renew(context.Context, string, []tidegate.Charge) error         { return s.err }
func (s *failing) Release(context.Context, string, []tidegate.Charge) error       { return s.err }
func (s *failing) Reset(context.Context, []tidegate.Charge) error                 { return s.err }
func (s *failing) Now(context.Context) (time.Time, error)                         { return time.Time{}, s.err }

// everything is all that a store does but Close.
func everything(ctx context.Context, s tidegate.Store, c tidegate.Charge) map[string]error {
	cs := []tidegate.Charge{c}
	_, take := s.Take(ctx, cs, nil)
	_, now := s.Now(ctx)
	return map[string]error{
		"take": take, "now": now,
		"settle": s.Settle(ctx, "id", cs, 1), "renew": s.Renew(ctx, "id", cs),
		"release": s.Release(ctx, "id", cs), "reset": s.Reset(ctx, cs),
	}
}

// An error of the server's store keeps its kind, and its words.
func TestErrorsKeepTheirKind(t *testing.T) {
	sentinels := []error{tidegate.ErrNever, tidegate.ErrUnsupported, tidegate.ErrUnknownID, tidegate.ErrStore}
	limit := &tidegate.LimitError{Text: "10/x", Problem: "unknown unit", Hint: "write 10/s"}
	for _, v := range []struct {
		err  error
		is   error
		text string
	}{
		{tidegate.ErrNever, tidegate.ErrNever, tidegate.ErrNever.Error()},
		{fmt.Errorf("why: %w", tidegate.ErrUnsupported), tidegate.ErrUnsupported, "why: " + tidegate.ErrUnsupported.Error()},
		{tidegate.ErrUnknownID, tidegate.ErrUnknownID, tidegate.ErrUnknownID.Error()},
		{&tidegate.StoreError{Op: "x", Err: errors.New("LOADING the data")}, tidegate.ErrStore, "LOADING the data"},
		{&tidegate.StoreError{Op: "x", Err: tidegate.ErrClosed}, tidegate.ErrStore, "store is closed"},
		{limit, nil, limit.Error()},
		{errors.New("what is this\xff"), nil, "what is this"},
		{errors.New(strings.Repeat("é", 4000)), nil, "éééé"},
		{context.DeadlineExceeded, tidegate.ErrStore, "deadline"},
	} {
		srv := serve(t, storeservice.Config{Store: &failing{err: v.err}})
		s := open(t, srv.addr, nil)
		for op, err := range everything(t.Context(), s, newCharge(t, "k", "10/s", 1)) {
			if err == nil || !strings.Contains(err.Error(), v.text) {
				t.Errorf("%s: %v, want %v", op, err, v.err)
				continue
			}
			for _, x := range sentinels {
				if want := v.is != nil && errors.Is(v.is, x); errors.Is(err, x) != want {
					t.Errorf("%s: %v is %v: %t", op, err, x, !want)
				}
			}
			if e, ok := errors.AsType[*tidegate.StoreError](err); ok && e.Op != op {
				t.Errorf("%s: a failure in %s", op, e.Op)
			}
			if e, ok := errors.AsType[*tidegate.LimitError](err); errors.Is(v.err, limit) && (!ok || *e != *limit) {
				t.Errorf("%s: %#v, want %#v", op, err, limit)
			}
		}
	}
}

// Without the right token nothing is answered, and the error says why.
func TestToken(t *testing.T) {
	m := memory(t, nil)
	srv := serve(t, storeservice.Config{Store: m})
	none, err := storeservice.New(&storeservice.Config{Store: m})
	if err != nil {
		t.Fatal(err)
	}
	unset := serveListener(t, listen(t), none)
	for _, v := range []struct{ addr, token, want string }{
		{srv.addr, "wrong", "the token is not this server's"},
		{srv.addr, secret + "x", "the token is not this server's"},
		{srv.addr, secret[1:], "the token is not this server's"},
		{srv.addr, "", "calls need the token"},
		{unset.addr, "any", "this server has none: start it with --token-file"},
		{unset.addr, "", "this server has none"},
	} {
		s, err := Open(v.addr, &Config{Token: v.token})
		if err != nil {
			t.Fatal(err)
		}
		for op, err := range everything(t.Context(), s, newCharge(t, "k", "10/s", 1)) {
			if !errors.Is(err, tidegate.ErrStore) || !strings.Contains(err.Error(), v.want) || !strings.Contains(err.Error(), "unauthenticated") {
				t.Errorf("token %q: %s: %v, want %q", v.token, op, err, v.want)
			}
			if v.token != "" && strings.Contains(err.Error(), secret) {
				t.Errorf("%v tells the token", err)
			}
		}
		s.Close()
	}
	if n := m.Stats().Keys; n != 0 {
		t.Errorf("%d buckets were made", n)
	}
	// What the caller's context carries is for others: neither is it sent, nor does it take the token's place.
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer of another")
	if _, err := open(t, srv.addr, nil).Take(ctx, []tidegate.Charge{newCharge(t, "k", "10/s", 1)}, nil); err != nil {
		t.Error(err)
	}
}

// What is more than a server reads is refused here, by an error that is not the store's.
func TestTooLarge(t *testing.T) {
	srv := serve(t, storeservice.Config{Store: memory(t, nil)})
	s := open(t, srv.addr, nil)
	large := newCharge(t, strings.Repeat("k", maxBytes+1), "10/s", 1)
	many := make([]tidegate.Charge, maxCharges+1)
	for i := range many {
		many[i] = newCharge(t, "k", "10/s", 1)
	}
	for _, cs := range [][]tidegate.Charge{{large}, many} {
		_, err := s.Take(t.Context(), cs, nil)
		for _, err := range []error{err, s.Reset(t.Context(), cs)} {
			if err == nil || errors.Is(err, tidegate.ErrStore) || !strings.Contains(err.Error(), "in one call") {
				t.Errorf("%v", err)
			}
		}
	}
	almost := newCharge(t, strings.Repeat("k", maxBytes-1000), "10/s", 1)
	if d := mustTake(t, s, almost)[0]; !d.Allowed {
		t.Errorf("%+v", d)
	}
}

func TestConfig(t *testing.T) {
	for _, v := range []struct{ address, want string }{
		{"", "write host:port"}, {"localhost", "write host:port"}, {":8081", "write host:port"}, {"http://localhost:80", "write host:port"},
		{"unix:", "names no file"}, {"a b:80", "write host:port"}, {"localhost:", "write host:port"},
	} {
		if _, err := Open(v.address, nil); err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%q: %v", v.address, err)
		}
	}
	for _, v := range []struct {
		cfg  Config
		want string
	}{
		{Config{Timeout: -1}, "leave it 0"},
		{Config{Token: "two words"}, "the token has spaces"},
		{Config{Token: "line\n"}, "the token has spaces"},
	} {
		if _, err := Open("localhost:1", &v.cfg); err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%+v: %v", v.cfg, err)
		}
	}
	if _, err := New(nil, nil); err == nil {
		t.Error("a store on no connection")
	}
}
