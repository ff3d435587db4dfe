// Command bench measures Tidegate beside its peers, on identical work, in one run, and prints ratios.
//
// Each workload is run by each contender in turn, several times over, so that what else the machine does falls on all
// alike; a ratio is the median of those of the rounds. The loop is closed: a caller asks again when it is answered. Callers, the client
// and redis-server share the machine's cores, for the peers as for us. Every contender's limit is one that refuses nothing,
// unless the workload is about refusals.
//
//	go run ./bench                    all workloads, a few minutes
//	go run ./bench -only '64 callers' those whose name matches
//	go run ./bench -contenders 'rate' ours, and those of the others whose name matches
//	go run ./bench -peers all         beside every peer there is, a quarter of an hour
//	go run ./bench -benchfmt          a line for every run, for benchstat
//
// It starts its own redis-server on a free port of the loopback interface, and stops it.
package main
