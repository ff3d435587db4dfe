// Package grpclimit limits gRPC calls, on the server's side and on the client's.
//
// A [Server] is the two interceptors of a server; a [Client] those of a connection. Both ask a [tidegate.Decider], which is
// a *tidegate.Limiter or an engine of many rules:
//
//	limit, err := grpclimit.NewServer(api, nil)
//	…
//	grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
//
// A call has these [tidegate.Attributes]:
//
//	method      the full method: /helloworld.Greeter/SayHello
//	service     its service: helloworld.Greeter
//	ip          on a server, the peer's address: IPv4-mapped ones as IPv4, IPv6 by its /64, no zone. A peer without one,
//	            as on a Unix socket, does not have it, and neither has a client's call
//	target      on a client, the target of the connection: dns:///greeter.example:443
//	metadata.x  the first value of the metadata x, which the caller wrote: no proof of who it is
//
// and those of an Attribute function of your own. A limit whose attribute a call does not have does not apply to it.
//
// Under limits of permits, those of an engine's rules among them, a call holds one until it has ended, and its messages take
// none. One that finds none is told to come again in a second, since nobody knows when one is given back. What is given back does
// not hold up the end of a call: [Server.Close] and [Client.Close] wait for it before a program ends.
//
// A call that is refused costs the caller nothing. It ends with:
//
//   - RESOURCE_EXHAUSTED where a limit is reached, with google.rpc.QuotaFailure, and with google.rpc.RetryInfo unless it can
//     never pass;
//   - UNAVAILABLE where a rule's policy for an outage is to refuse (then with google.rpc.RetryInfo), and where no decision
//     could be made, unless FailOpen is set;
//   - the status of its own context where that ended first.
//
// A server's refusal has metadata, too: ratelimit-policy and ratelimit (as draft-ietf-httpapi-ratelimit-headers-11 writes the
// fields of these names), retry-after (whole seconds, rounded up) and grpc-retry-pushback-ms, by which gRPC clients
// that retry by their service config do so not before it can help, and not at all where it cannot. All of it is in the
// trailers, since a server that has sent headers takes a client's retries away: docs/decisions/0032-grpc.md.
//
// It imports the root package alone; gRPC makes it a module of its own.
package grpclimit
