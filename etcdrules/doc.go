// Package etcdrules keeps rules in etcd: a source of rules that every replica watches, and that programs can change.
//
// The rules are the value of one key, the text of a file as it is, so that etcdctl can read and write them too. Beside it,
// under the key with ".info", lies who pushed them and when, in JSON, written in the same transaction.
//
// It is a module of its own, since the client of etcd brings many dependencies. It imports package source of the library,
// and nothing else of it.
package etcdrules
