package envoy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/tidegate-go/tidegate/memstore"
)

var update = flag.Bool("update", false, "write what is answered into the golden files, to be read and committed")

// TestGolden runs the stories of testdata/golden: files as people have them, requests, and what is answered. testdata/README
// says how they are written. The clock stands at 2000-01-01 00:00:00 UTC and moves only where a story says so.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/golden/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no stories: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			synctest.Test(t, func(t *testing.T) { got = play(t, string(text)) })
			switch {
			case got == string(text):
			case *update:
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("answered otherwise; go test -run TestGolden -update writes it down\n%s", difference(string(text), got))
			}
		})
	}
}

// story is a story that is being told.
type story struct {
	t       *testing.T
	service *Service
	metrics *Metrics
	files   []File
	options Options
	out     strings.Builder
}

// play tells a story, and returns it with the answers that were given.
func play(t *testing.T, text string) string {
	t.Helper()
	s := &story{t: t, metrics: NewMetrics()}
	store := memstore.New(nil)
	defer store.Close()
	cfg := ServiceConfig{Store: store, Metrics: s.metrics}
	var err error
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if strings.HasPrefix(line, "< ") || strings.HasPrefix(line, "! ") || strings.HasPrefix(line, "= ") {
			continue // an answer, which is given anew
		}
		s.out.WriteString(line)
		if i < len(lines)-1 {
			s.out.WriteString("\n")
		}
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "with":
			for word := range strings.FieldsSeq(rest) {
				switch word {
				case "merge":
					s.options.Merge = true
				case "headers":
					cfg.Headers = true
				case "dynamic-metadata":
					cfg.DynamicMetadata = true
				case "shadow":
					cfg.Shadow = true
				case "quota":
					cfg.Quota = true
				default:
					s.options.Algorithm = word
				}
			}
		case "file":
			var body []string
			for i++; i < len(lines) && (lines[i] == "" || lines[i][0] == ' ' || lines[i][0] == '\t'); i++ {
				body = append(body, strings.TrimPrefix(lines[i], "    "))
				s.out.WriteString(lines[i] + "\n")
			}
			i--
			s.files = append(s.files, File{Name: rest, Text: []byte(strings.Join(body, "\n"))})
		case "load":
			if s.service, err = NewService(cfg); err != nil {
				t.Fatal(err)
			}
			s.load()
		case "wait":
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
		case "json":
			s.ask(parseJSON(t, rest))
		case "ask":
			s.ask(parseAsk(t, rest))
		case "metrics":
			s.series()
		case "", "#":
		default:
			t.Fatalf("line %d: there is no word %q", i+1, verb)
		}
	}
	return s.out.String()
}

func (s *story) load() {
	c, err := Parse(s.files, s.options)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintf(&s.out, "! %s\n", strings.TrimSuffix(line, "\n"))
		}
		return
	}
	for _, w := range c.Warnings() {
		fmt.Fprintf(&s.out, "! warning: %s\n", w)
	}
	s.service.Set(c)
}

func parseJSON(t *testing.T, text string) *ratelimitv3.RateLimitRequest {
	t.Helper()
	var req ratelimitv3.RateLimitRequest
	if err := protojson.Unmarshal([]byte(text), &req); err != nil {
		t.Fatal(err)
	}
	return &req
}

// parseAsk reads DOMAIN [hits=N] DESCRIPTOR..., where a descriptor is KEY=VALUE,... [@N] for its own hits.
func parseAsk(t *testing.T, text string) *ratelimitv3.RateLimitRequest {
	t.Helper()
	fields := strings.Fields(text)
	req := &ratelimitv3.RateLimitRequest{Domain: fields[0]}
	for _, f := range fields[1:] {
		if n, ok := strings.CutPrefix(f, "hits="); ok {
			if _, err := fmt.Sscan(n, &req.HitsAddend); err != nil {
				t.Fatal(err)
			}
			continue
		}
		req.Descriptors = append(req.Descriptors, parseDescriptor(t, f))
	}
	return req
}

func (s *story) ask(req *ratelimitv3.RateLimitRequest) {
	resp, err := s.service.Answer(s.t.Context(), req)
	if err != nil {
		fmt.Fprintf(&s.out, "! %v\n", err)
		return
	}
	fmt.Fprintf(&s.out, "< %v\n", resp.GetOverallCode())
	for i, st := range resp.GetStatuses() {
		fmt.Fprintf(&s.out, "<   %d: %v", i, st.GetCode())
		if l := st.GetCurrentLimit(); l != nil {
			fmt.Fprintf(&s.out, ", limit %d", l.GetRequestsPerUnit())
			if m := l.GetUnitMultiplier(); m != nil {
				fmt.Fprintf(&s.out, " per %d", m.GetValue())
			}
			fmt.Fprintf(&s.out, " %v", l.GetUnit())
			if l.GetName() != "" {
				fmt.Fprintf(&s.out, " %q", l.GetName())
			}
		}
		fmt.Fprintf(&s.out, ", remaining %d", st.GetLimitRemaining())
		if d := st.GetDurationUntilReset(); d != nil {
			fmt.Fprintf(&s.out, ", reset %v", d.AsDuration())
		}
		s.out.WriteString("\n")
	}
	for _, h := range resp.GetResponseHeadersToAdd() {
		fmt.Fprintf(&s.out, "<   %s: %s\n", h.GetKey(), h.GetValue())
	}
	if m := resp.GetDynamicMetadata(); m != nil {
		text, err := m.MarshalJSON()
		if err != nil {
			s.t.Fatal(err)
		}
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(", "), []byte(",")), []byte(": "), []byte(":")) // spaces come and go by build
		fmt.Fprintf(&s.out, "<   metadata %s\n", text)
	}
	if _, ok := resp.GetDynamicMetadata().GetFields()["domain"]; resp.GetDynamicMetadata() != nil && !ok {
		s.t.Error("metadata without a domain")
	}
}

// series tells the series that are not 0.
func (s *story) series() {
	s.metrics.mu.RLock()
	defer s.metrics.mu.RUnlock()
	var lines []string
	for ls, c := range s.metrics.all {
		if c.total.Load() == 0 {
			continue
		}
		lines = append(lines, fmt.Sprintf("= {%s} {%s} {%s}: total %d, within %d, near %d, over %d, shadow %d\n", ls.domain, ls.key1, ls.key2,
			c.total.Load(), c.within.Load(), c.near.Load(), c.over.Load(), c.shadow.Load()))
	}
	sortLines(lines)
	s.out.WriteString(strings.Join(lines, ""))
}

// difference shows the first line in which two texts differ.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\n want %s\n got  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}
