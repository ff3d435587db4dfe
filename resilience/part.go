package resilience

import "github.com/tidegate-go/tidegate"

// Share returns the part of the rule's limit that this replica would keep to without the shared store, above 0 and at most 1.
// It follows the demand, as the last heartbeats told it.
func (s *Store) Share(rule string) float64 {
	return float64(s.share(rule, tidegate.FailurePolicy{})) / whole
}

// Parts makes parts of limits. The zero Parts is ready, and safe for concurrent use.
type Parts struct{ scaled limits }

// Of returns that part of a limit: in thousandths, rounded down, at least one, and never more than that but at least one token;
// without warm-up, lease and shards. The same part of the same limit is the same pointer. The error is a
// [*tidegate.LimitError].
func (p *Parts) Of(limit *tidegate.Limit, part float64) (*tidegate.Limit, error) {
	return p.scaled.of(limit, min(whole, max(1, int64(part*whole+1e-6))))
}
