// Package grpcserver carries services over gRPC: with health and reflection, bounded in what clients may ask of it and how
// long they may take, and drained as the HTTP server is. It knows none of the services: whoever creates it registers them.
//
// It imports nothing of ours.
package grpcserver
