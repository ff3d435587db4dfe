package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tidegate-go/tidegate"
)

// A store with leases tells of them in /metrics; one without does not.
func TestLeaseMetrics(t *testing.T) {
	s := newServerOn(t, newFaultyStore(t), &Config{Leases: func() LeaseStats { return LeaseStats{Taken: 50, Spent: 30, Lapsed: 15, Takes: 10} }})
	text := call(s, http.MethodGet, "/metrics", "").Body.String()
	for _, line := range []string{
		"tidegate_lease_taken_tokens_total 50", "tidegate_lease_spent_tokens_total 30",
		"tidegate_lease_lapsed_tokens_total 15", "tidegate_lease_takes_total 10",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	s = newServerOn(t, newFaultyStore(t), nil)
	if text := call(s, http.MethodGet, "/metrics", "").Body.String(); strings.Contains(text, "tidegate_lease") {
		t.Error("/metrics tells of leases that there are not")
	}
}

// leasedStore decides every take of one cost from a lease, and fails the others.
type leasedStore struct{ tidegate.Store }

func (leasedStore) Take(_ context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if charges[0].Cost > 1 {
		return dst, &tidegate.StoreError{Op: "take", Err: errors.New("gone")}
	}
	for range charges {
		dst = append(dst, tidegate.Decision{Allowed: true, Source: tidegate.SourceLease, Limit: 20, Rule: charges[0].Rule})
	}
	return dst, nil
}

// A take from a lease is none of the store's: it is not measured, and does not say that a store is well again.
func TestLeasedTakeSaysNothingOfTheStore(t *testing.T) {
	s := newServerOn(t, leasedStore{newFaultyStore(t)}, nil)
	post(s, "/v1/take", `{"rule":"example","key":"k","cost":2}`)
	post(s, "/v1/take", `{"rule":"example","key":"k"}`)
	text := call(s, http.MethodGet, "/metrics", "").Body.String()
	for _, line := range []string{
		`tidegate_store_duration_seconds_count 1`,
		`tidegate_decisions_total{outcome="allowed",rule="example",source="lease"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	if !s.watched.failing.Load() {
		t.Error("the store is taken for well")
	}
}
