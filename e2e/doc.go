// Package e2e tests the library from outside, with programs and libraries that it must not depend on itself: a real browser,
// a WebSocket library, a CORS middleware, a parser of structured fields. It has nothing but tests.
package e2e
