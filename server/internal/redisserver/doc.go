// Package redisserver starts a redis-server of one's own, to be killed, stopped and started again: what an experiment on
// outages needs that ships with the command, and so cannot lean on packages for tests.
//
// It imports the standard library alone.
package redisserver
