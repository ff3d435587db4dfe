package httplimit_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
)

// Requests whose key could not be made all fell into one bucket of an empty key, so that one client throttled all (RB-109).
// Here such a request is not the limit's, is refused where it is required to be, or has another key; never a shared one.
func TestNoSharedBucketForWhatIsMissing(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	for name, c := range map[string]struct {
		keyBy  string
		remote string
		cfg    httplimit.Config
		want   int // the status of the third of three requests, under a limit of one
	}{
		"no header":             {"header.x-api-key", "203.0.113.1:1", httplimit.Config{}, 200},
		"no header, required":   {"header.x-api-key", "203.0.113.1:1", httplimit.Config{Require: []string{"header.x-api-key"}}, 400},
		"no address":            {"ip", "", httplimit.Config{}, 200},
		"a Unix socket":         {"ip", "@", httplimit.Config{}, 200},
		"no address, required":  {"ip", "@", httplimit.Config{Require: []string{"ip"}}, 400},
		"an address of IPv6":    {"ip", "[2001:db8::1]:1", httplimit.Config{}, 429},
		"by address instead":    {"who", "203.0.113.1:1", httplimit.Config{Attribute: keyOrAddress}, 429},
		"an empty key is a key": {"header.x-empty", "203.0.113.1:1", httplimit.Config{}, 429},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			c.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			l, err := tidegate.New(store, tidegate.Limit{Rate: 1, Per: time.Hour}, &tidegate.Config{Rule: name, KeyBy: c.keyBy})
			if err != nil {
				t.Fatal(err)
			}
			h := middleware(t, l, &c.cfg).Wrap(http.HandlerFunc(ok))
			status := 0
			for range 3 {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.RemoteAddr = c.remote
				r.Header.Set("X-Empty", "")
				h.ServeHTTP(w, r)
				status = w.Code
			}
			if status != c.want {
				t.Errorf("the third: %d, want %d", status, c.want)
			}
			if warned := strings.Count(log.String(), "no address") == 1; warned != (c.remote == "" || c.remote == "@") {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}

// keyOrAddress falls back to the address, in a way that no key can be mistaken for one.
func keyOrAddress(r *http.Request, name string) (string, bool) {
	if name != "who" {
		return "", false
	}
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return "key " + key, true
	}
	return "address " + r.RemoteAddr, true
}
