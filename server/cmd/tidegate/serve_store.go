package main

import (
	"context"
	"strings"
	"sync"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/remotestore/storeservice"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
	"github.com/tidegate-go/tidegate/server"
	"github.com/tidegate-go/tidegate/server/internal/grpcserver"
)

// takesTogether is how many takes of a batch are asked at once of a store that gathers them itself.
const takesTogether = 128

// registerStore lets services take from the server's store over gRPC. Without a token they are told that they need one.
func registerStore(g *grpcserver.Server, s *server.Server, store *servedStore, token string) error {
	cfg := &storeservice.Config{
		Store: &countedStore{Store: s.Store(), decided: s.Decided},
		Token: token,
	}
	if !store.inProcess {
		cfg.Together = takesTogether
	}
	service, err := storeservice.New(cfg)
	if err != nil {
		return err
	}
	service.Register(g)
	g.SetServing(storev1.Store_ServiceDesc.ServiceName, true)
	return nil
}

// inProcess reports whether a store decides in this process.
func inProcess(store tidegate.Store) bool {
	_, ok := store.(*memstore.Store)
	return ok
}

const (
	// maxCountedRules bounds the rules that decisions of other services are counted by, which are whatever these name.
	maxCountedRules = 1000
	otherRules      = "other"
)

// countedStore counts decisions by rule, as the API does.
type countedStore struct {
	tidegate.Store
	decided func(*tidegate.Decision)
	mu      sync.Mutex
	rules   map[string]struct{}
}

// Take counts the decision on the whole, unless nothing was to be charged.
func (s *countedStore) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	n := len(dst)
	dst, err := s.Store.Take(ctx, charges, dst)
	if err != nil || !charging(charges) {
		return dst, err
	}
	d := tidegate.Combine(charges, dst[n:])
	d.Rule = s.rule(d.Rule)
	s.decided(&d)
	return dst, nil
}

func charging(charges []tidegate.Charge) bool {
	for i := range charges {
		if charges[i].Cost > 0 {
			return true
		}
	}
	return false
}

// rule returns what a rule is counted under.
func (s *countedStore) rule(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.rules[name]; !known {
		if len(s.rules) >= maxCountedRules {
			return otherRules
		}
		if s.rules == nil {
			s.rules = map[string]struct{}{}
		}
		s.rules[strings.Clone(name)] = struct{}{}
	}
	return strings.ToValidUTF8(name, "\uFFFD") // a label can be nothing else
}
