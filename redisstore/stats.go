package redisstore

// Stats tells what a [Store] did without asking the server. The numbers only grow.
type Stats struct {
	LeaseTaken  int64 // tokens taken ahead for leases
	LeaseSpent  int64 // of these, tokens that takes have spent
	LeaseLapsed int64 // of these, tokens that have lapsed unspent; counted within about a second
	LeaseTakes  int64 // takes decided from leases alone
}

// Stats returns what the store did without asking the server.
func (s *Store) Stats() Stats {
	l := s.leases.Stats()
	return Stats{LeaseTaken: l.Taken, LeaseSpent: l.Spent, LeaseLapsed: l.Lapsed, LeaseTakes: l.Takes}
}
