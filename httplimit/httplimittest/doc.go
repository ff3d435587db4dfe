// Package httplimittest holds every adapter of httplimit to the same answers: one table of requests, and what a client must
// be answered, to the header and the byte. Where an adapter passes, a service behaves the same whatever framework it is
// written with.
//
//	func TestConformance(t *testing.T) {
//		httplimittest.Run(t, func(t *testing.T, s httplimittest.Service) string {
//			limits, err := ginlimit.New(s.Decider, s.Config)
//			…
//			engine.Use(limits)
//			for _, route := range s.Routes {
//				engine.Any(route, func(c *gin.Context) {
//					status, body := s.Serve(c.Request.Context(), c.Request.URL.Path)
//					c.String(status, body)
//				})
//			}
//			return server.URL // stopped by t.Cleanup
//		})
//	}
//
// Requests go through real sockets on the loopback interface. Limits are kept in memory, by a clock that stands still, so
// that every time in an answer is exact.
//
// It imports the root package, httplimit, clientip, memstore and the standard library.
package httplimittest
