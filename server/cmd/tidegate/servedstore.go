package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/redisstore"
	"github.com/tidegate-go/tidegate/resilience"
	"github.com/tidegate-go/tidegate/server"
)

const (
	// storeTimeout bounds a call of a shared store that is wrapped, unless --store-timeout does. The store has the same, for
	// what no caller waits for.
	storeTimeout = 50 * time.Millisecond
	// The bounds of --store-timeout: below, no network answers in time; above, callers would drown in an outage.
	minStoreTimeout, maxStoreTimeout = time.Millisecond, 10 * time.Second
	// settleTime bounds how long the service waits to learn whether the store answers: three heartbeats and their pauses.
	settleTime = time.Second
)

// servedStore is the store of a service. One that is shared is wrapped, so that the service outlives its failure.
type servedStore struct {
	tidegate.Store
	metrics *server.StoreMetrics
	leases  func() server.LeaseStats
	known   chan struct{} // closed once it is known whether the store answers

	inProcess bool // it decides in this process, and not a round trip away
}

// openServed opens the store of the name.
func openServed(flag string, timeout time.Duration, replicas int, log *slog.Logger) (*servedStore, error) {
	shared, err := openStoreWith(flag, &redisstore.Config{Timeout: timeout})
	if err != nil {
		return nil, err
	}
	s := &servedStore{Store: shared, leases: leasesOf(shared), known: make(chan struct{}), inProcess: inProcess(shared)}
	if s.inProcess {
		close(s.known)
		return s, nil
	}
	s.metrics = server.NewStoreMetrics()
	s.Store, err = resilience.New(shared, &resilience.Config{
		Timeout:  timeout,
		Replicas: replicas,
		Logger:   log,
		Hooks:    s.hooks(),
	})
	if err != nil {
		shared.Close()
		return nil, err
	}
	return s, nil
}

// hooks are the metrics', and notice when it is first known whether the store answers.
func (s *servedStore) hooks() resilience.Hooks {
	h := s.metrics.Hooks()
	know := sync.OnceFunc(func() { close(s.known) })
	changed, called := h.State, h.Call
	h.State = func(c resilience.StateChange) {
		changed(c)
		know()
	}
	h.Call = func(op string, took time.Duration, kind resilience.ErrorKind) {
		called(op, took, kind)
		if kind == resilience.NoError {
			know()
		}
	}
	return h
}

// settle waits until it is known whether the store answers, so that /readyz tells it from the first request on.
func (s *servedStore) settle(ctx context.Context) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-s.known:
	case <-timer.C:
	case <-ctx.Done():
	}
}
