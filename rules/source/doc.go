// Package source says what a source of rules is: where their text comes from, and who is told when it changes.
//
// A source delivers documents: the text of the rules, the moment at which it was changed, and where it is from. It does
// not read them: package live does, and keeps the old rules where the new ones are bad. So a source is small. Files are
// in package live, Redis is in redisstore, etcd in etcdrules; for others (Nacos, Consul, Apollo, a service of your own)
// implement [Source], or give [Poll] a function that fetches: an example polls over HTTP.
//
// It imports the standard library alone, so that a module which implements it need not depend on anything.
package source
