package envoy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/tidegate-go/tidegate/memstore"
)

// FuzzParse: whatever a file holds, it is a config whose limits are valid or an error that names the file, soon.
func FuzzParse(f *testing.F) {
	stories, err := filepath.Glob("testdata/golden/*.txt")
	if err != nil || len(stories) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range stories {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range regexp.MustCompile(`(?m)^file .*\n((?:    .*\n|\n)+)`).FindAllStringSubmatch(string(text), -1) {
			f.Add([]byte(strings.ReplaceAll("\n"+part[1], "\n    ", "\n")))
		}
	}
	f.Add([]byte("domain: d\ndescriptors: &a\n- key: k\n  descriptors: *a\n"))
	f.Add([]byte("a: &a {<<: *a}\ndomain: d\n"))
	f.Add([]byte("domain: d\ndescriptors:\n- &a {key: k, <<: [*a, *a, *a]}\n"))
	f.Add([]byte("\xef\xbb\xbfdomain: d\r\ndescriptors:\r\n- key: k\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		start := time.Now()
		c, err := Parse([]File{{Name: "f.yaml", Text: text}}, Options{})
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%v for %d bytes", took, len(text))
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.yaml:") {
				t.Errorf("an error that does not name the file: %v", err)
			}
			return
		}
		for _, d := range c.domains {
			d.root.each(func(n *node) {
				if err := n.limit.limit.Validate(); err != nil && !n.limit.unlimited {
					t.Errorf("%s: %v", n.path, err)
				}
			})
		}
	})
}

// FuzzWildcard: a wildcard matches what a regular expression of the same meaning does.
func FuzzWildcard(f *testing.F) {
	f.Add("a*b*c", "aXbXc")
	f.Add("*", "")
	f.Add("a*a", "a")
	f.Add("**", "x")
	f.Add("*.example.com", ".example.com")
	f.Fuzz(func(t *testing.T, pattern, value string) {
		if !strings.Contains(pattern, "*") || strings.ToValidUTF8(pattern+value, "") != pattern+value || len(pattern) > 1000 {
			return
		}
		re, err := regexp.Compile(`(?s)\A` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `\z`)
		if err != nil {
			return
		}
		w := newWildcard(pattern)
		if got := w.matches(value); got != re.MatchString(value) {
			t.Errorf("%q matches %q: %t", pattern, value, got)
		}
	})
}

// FuzzAnswer: whatever a request holds, it is answered, with a status for each descriptor, or refused.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`d hits=3 k=v k=v@0 k=v@-1 u=x,w=y`, `d k=`, `e k=v`, `d =v`,
	} {
		fields := strings.Fields(text)
		req := &ratelimitv3.RateLimitRequest{Domain: fields[0]}
		for _, d := range fields[1:] {
			req.Descriptors = append(req.Descriptors, parseDescriptor(f, strings.TrimPrefix(d, "hits=")))
		}
		b, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	store := memstore.New(nil)
	f.Cleanup(func() { store.Close() })
	s, err := NewService(ServiceConfig{Store: store, Headers: true, DynamicMetadata: true, Metrics: NewMetrics()})
	if err != nil {
		f.Fatal(err)
	}
	s.Set(mustParse(f, `
domain: d
descriptors:
- key: k
  detailed_metric: true
  rate_limit: {unit: second, requests_per_unit: 3, name: k}
- key: u
  descriptors:
  - key: w
    value: "*"
    share_threshold: true
    rate_limit: {unit: second, requests_per_unit: 3, replaces: [{name: k}]}
`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var req ratelimitv3.RateLimitRequest
		if proto.Unmarshal(b, &req) != nil {
			return
		}
		resp, err := s.Answer(t.Context(), &req)
		if err != nil {
			return
		}
		if len(resp.GetStatuses()) != len(req.GetDescriptors()) {
			t.Errorf("%d statuses of %d descriptors", len(resp.GetStatuses()), len(req.GetDescriptors()))
		}
		if _, err := proto.Marshal(resp); err != nil {
			t.Errorf("an answer that cannot be sent: %v", err)
		}
	})
}
