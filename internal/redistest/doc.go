// Package redistest starts real Redis servers for tests and ends them with the test.
//
//	srv := redistest.Start(t)                                 // standalone, on a unix socket
//	srv := redistest.StartTCP(t, "--maxmemory", "2mb")        // standalone, on a port of 127.0.0.1
//	set := redistest.StartSentinel(t)                         // a primary, a replica, three sentinels
//	clu := redistest.StartCluster(t)                          // three primaries, all slots
//
// A server that a test started can be killed, stopped, paused, resumed and restarted; it listens on the same
// socket or port throughout. It keeps nothing on disk unless its options say so. Every server is killed when the
// test that started it ends, and on Linux also when the test process dies.
//
// The binary is redis-server, or what the environment variable TIDEGATE_REDIS_SERVER names (a Valkey server,
// another version). Where it is missing the test is skipped, and one line per process says so; where
// TIDEGATE_REQUIRE_SERVERS is set to anything, as in make test, the test fails instead.
//
// Methods that end in failure report it through the testing.TB that started the server, so they are to be called
// from the goroutine of a test. Do returns its error and may be called from anywhere.
package redistest
