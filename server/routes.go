package server

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// routes joins paths and endpoints.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	s.mux = mux
	for path, e := range map[string]endpoint{
		"/v1/take":    s.take,
		"/v1/peek":    s.peek,
		"/v1/settle":  s.settle,
		"/v1/acquire": s.acquire,
		"/v1/renew":   s.renew,
		"/v1/release": s.release,
		"/v1/reset":   s.reset,
		"/v1/try":     s.try,
		"/v1/outcome": s.outcome,
	} {
		mux.Handle("POST "+path, s.bounded(s.ruled(answer(e))))
		mux.Handle(path, wrongMethod("POST"))
	}
	for path, e := range map[string]endpoint{
		"/v1/state":   s.state,
		"/v1/keys":    s.keys,
		"/v1/changes": s.changes,
		"/v1/traffic": s.counts,
	} {
		mux.Handle("GET "+path, s.few(answer(e)))
		mux.Handle(path, wrongMethod("GET, HEAD"))
	}
	mux.Handle("GET /v1/rules", s.few(answer(s.listRules)))
	mux.Handle("PUT /v1/rules", s.few(answer(s.changeRules)))
	mux.Handle("/v1/rules", wrongMethod("GET, HEAD, PUT"))
	for path, h := range map[string]http.Handler{
		"/healthz": answer(s.healthz),
		"/readyz":  answer(s.readyz),
		"/metrics": promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}),
	} {
		mux.Handle("GET "+path, h)
		mux.Handle(path, wrongMethod("GET, HEAD"))
	}
	mux.Handle("/", answer(func(_ http.ResponseWriter, r *http.Request) (reply, error) {
		return reply{}, notFound("there is no path %q: the API is under /v1/", r.URL.Path)
	}))
	return s.recovered(mux)
}

// wrongMethod answers requests to a path that wants another method.
func wrongMethod(allow string) http.Handler {
	return answer(func(w http.ResponseWriter, r *http.Request) (reply, error) {
		w.Header().Set("Allow", allow)
		return reply{}, &apiError{status: http.StatusMethodNotAllowed, message: r.URL.Path + " wants " + allow}
	})
}

// bounded answers 503 where too many requests run already: beyond that number they would only wait for each other, with
// their bodies in memory.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.running.Add(-1)
		if s.running.Add(1) > int64(s.cfg.MaxRequests) {
			s.metrics.rejected.Inc()
			writeError(w, unavailable("too many requests run at once"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// maxLarge bounds the requests that are answered at once whose answers, or bodies, are as large as all rules are.
const maxLarge = 64

// few answers 503 where many requests for much run already. They do not keep takes from being answered, nor the other way
// round.
func (s *Server) few(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.large.Add(-1)
		if s.large.Add(1) > maxLarge {
			s.metrics.rejected.Inc()
			writeError(w, unavailable("too many requests of this kind run at once"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// recovered answers 500 where a handler panics, and logs it.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http's own way to say that a panic is none
				panic(p)
			}
			s.log.Error("a request panicked", slog.String("path", r.URL.Path), slog.Any("panic", p),
				slog.String("stack", string(debug.Stack())))
			writeError(w, &apiError{status: http.StatusInternalServerError, message: "the server failed on this request; its log says how"})
		}()
		next.ServeHTTP(w, r)
	})
}
