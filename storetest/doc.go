// Package storetest is the conformance suite of [tidegate.Store]: what the interface says in words, it says in code.
// Every store and every wrapper around one passes it.
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			New: func(t *testing.T, now func() time.Time) tidegate.Store {
//				return mystore.New(&mystore.Config{Now: now})
//			},
//		})
//	}
//
// Each case has a store of its own, without buckets, and a clock that stands still unless the case moves it, also
// backwards; none sleeps. Virtual time begins in the year 2100, so that a store whose entries expire by a clock of its
// own does not lose them meanwhile. A failure quotes the promise that was broken.
//
// Some cases take random limits at random times. Their failures print a seed, which [Harness.Seed], or TIDEGATE_SEED
// in the environment, repeats.
//
// It imports the root package and the standard library.
package storetest
