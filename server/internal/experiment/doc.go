// Package experiment puts the promise to the test: the limit that was written is the limit that the downstream sees.
//
// Replicas, which are real HTTP servers with an identity, connections and a store each, stand in front of one downstream
// that counts, all on the loopback interface. A load generator sends to them on a schedule that nothing holds up. The store
// may be killed or stopped meanwhile, and come back. What the downstream saw is told in sliding seconds.
//
// [Plan] says which runs there are, [Plan.Run] carries one out, and its [Trace] becomes a [Result], a line of text or a
// picture. The package imports the stores, package resilience and its sibling redisserver; the command imports it.
package experiment
