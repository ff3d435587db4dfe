// Package envoy answers Envoy's rate limit service, envoy.service.ratelimit.v3, from the YAML files that
// envoyproxy/ratelimit is configured by, so that one can be put in the other's place behind the same Envoy.
//
// A [Config] is what the files say: [Parse] reads one strictly, with every fault at its line; a [Source] reads a directory
// and follows it. A [Service] matches the descriptors of a request to limits and makes one take of them: each matched
// descriptor is a charge. The rule is the domain and the keys, the key of its bucket the values. That take is all or
// nothing, which is the one intended difference: a request that is refused charges none of its descriptors.
//
// The package knows nothing of sockets: package grpcserver carries the service over gRPC, which [Service.Register] brings
// there, with [Codec] to read its requests and write its answers lightly; [Service.JSON] is a handler for whoever serves HTTP.
// It imports the root and internal/key, not the server.
package envoy
