// Package tidegate limits how much may pass, exactly, in one process or shared by many.
//
// A [Limiter] keeps a [Limit] for each key in a [Store]. The store decides: package memstore in this process, module
// redisstore in Redis or Valkey, for all replicas together and on the server's clock. The verbs are those of
// golang.org/x/time/rate:
//
//	store := memstore.New(nil)
//	defer store.Close()
//	api, err := tidegate.New(store, tidegate.Limit{Rate: 600, Per: time.Second, Burst: 100}, nil)
//	…
//	d, err := api.Allow(ctx, "user:42")
//
// An answer of no is a [Decision], not an error. An error means that no decision could be made.
//
// The package imports the standard library alone, and a test holds it there; everything else of Tidegate is built on it.
package tidegate
