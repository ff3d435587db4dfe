// Package hotkeys tells which keys are the hottest, by traffic and by refusals, for each rule and for all of them, in a
// bounded amount of memory however many keys there are.
//
//	hot, err := hotkeys.New(nil)
//	…
//	hot.Observe("hot-items", "item-17", 1, d.Allowed) // with each decision
//	for _, e := range hot.Top("hot-items", 10, hotkeys.ByRefusals) {
//		fmt.Printf("%s: at least %.0f, at most %.0f\n", e.Key, e.Count, e.Count+e.Error)
//	}
//
// # What is counted
//
// Weights that fade: what was observed a time t ago counts e^(-t/window), so that an even stream of r a second counts
// r × window, and a key that nobody asks for any more has faded to a thousandth after seven windows. Traffic is the cost of
// what was asked for, allowed or not; refusals are counted one each.
//
// # How right it is
//
// Each entry carries its own bounds: the true count is at least Count and at most Count + Error. Nothing is sampled. For each
// rule and order a number of keys is watched ([Config].Keys, in eight parts to which keys are assigned by hash); the method is
// Filtered Space-Saving (Homem and Carvalho, 2010): a key that is not watched counts in one of a few hundred cells, and takes
// the place of the lightest watched key when its cell would outweigh that one. So Error is never above the traffic of the key's
// part divided by the keys watched there, a key with more traffic than that is always reported, and behind a long tail of
// keys asked for once each it is far less, since most of them never get out of their cells.
//
// It imports the standard library alone.
package hotkeys
