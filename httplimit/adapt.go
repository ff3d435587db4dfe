package httplimit

import "net/http"

// What adapters of frameworks use that have the request and the writer of net/http, such as gin and echo: with a [Passage],
// they need nothing else.

// EnterHTTP is [Middleware.Enter] for a request of net/http whose route the framework knows: it is the attribute "pattern"
// unless [Config.Pattern] is set.
func (m *Middleware) EnterHTTP(r *http.Request, pattern string) *Passage {
	return m.Enter(r.Context(), &routedRequest{httpRequest: httpRequest{r: r, pattern: m.cfg.Pattern}, route: pattern})
}

// routedRequest is a request of net/http with the route of a framework.
type routedRequest struct {
	httpRequest

	route string
}

// Pattern returns the route.
func (r *routedRequest) Pattern() string {
	if r.pattern != nil {
		return r.pattern(r.r)
	}
	return r.route
}

// Refuse writes the answer to a refused request, as [Config.Respond] does where it is set. The fields are to be set before.
func (m *Middleware) Refuse(w http.ResponseWriter, r *http.Request, a *Answer) {
	if m.cfg.Respond != nil {
		m.cfg.Respond(w, r, a)
		return
	}
	a.Write(w)
}

// SetFields sets the [Passage.Fields] on a response of net/http.
func (p *Passage) SetFields(h http.Header) { p.setFields(h) }
