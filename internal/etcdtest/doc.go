// Package etcdtest starts real etcd servers for tests, on free ports of 127.0.0.1, and ends them with the test.
//
// Without an etcd on the PATH a test is skipped, or fails where TIDEGATE_REQUIRE_SERVERS is set. It imports the standard
// library alone.
package etcdtest
