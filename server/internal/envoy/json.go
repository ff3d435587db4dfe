package envoy

import (
	"errors"
	"io"
	"net/http"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxJSON bounds the body of a request; what a proxy sends has a few hundred bytes.
const maxJSON = 1 << 20

// JSON returns the handler of POST /json, for clients that have no gRPC: the body is a request of the service in the JSON of
// protocol buffers, and so is the answer. Its status is 200 or 429; 400 for a request that cannot be read or decided. Who
// may refund is for mayRefund to say, since whoever reaches this handler need not be a proxy; nil is nobody.
func (s *Service) JSON(mayRefund func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSON))
		if err != nil {
			refuse(w, "the body cannot be read: "+err.Error())
			return
		}
		var req ratelimitv3.RateLimitRequest
		if err := protojson.Unmarshal(body, &req); err != nil {
			refuse(w, "the body is not a RateLimitRequest: "+err.Error())
			return
		}
		for _, d := range req.GetDescriptors() {
			if d.GetIsNegativeHits() && (mayRefund == nil || !mayRefund(r)) {
				refuse(w, "a refund (isNegativeHits) needs the token over HTTP")
				return
			}
		}
		resp, err := s.Answer(r.Context(), &req)
		if err != nil {
			if errors.Is(err, r.Context().Err()) {
				return // nobody is there to be told
			}
			refuse(w, err.Error())
			return
		}
		text, err := protojson.Marshal(resp)
		if err != nil {
			http.Error(w, "the answer cannot be written: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if resp.GetOverallCode() == codeOver {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = w.Write(text)
	})
}

func refuse(w http.ResponseWriter, problem string) { http.Error(w, problem, http.StatusBadRequest) }
