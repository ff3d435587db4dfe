// Package storeservice answers what package remotestore asks: it puts any [tidegate.Store] behind the gRPC service
// tidegate.v1.Store. `tidegate serve --grpc` has it; a program of your own registers it with its own gRPC server.
//
// Who may call it can charge, refund and reset any bucket, so that every call needs a bearer token, and without one set all
// are refused. How many takes and charges a call has and how long it may take are bounded here, how large it is by the
// gRPC server.
//
// It may import the root package, remotestore's storev1 and internal/wire, and gRPC.
package storeservice
