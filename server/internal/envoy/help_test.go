package envoy

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sortLines(lines []string) { slices.Sort(lines) }

// parseDescriptor reads KEY=VALUE,KEY=VALUE@HITS; negative hits are a refund.
func parseDescriptor(tb testing.TB, text string) *commonv3.RateLimitDescriptor {
	tb.Helper()
	d := &commonv3.RateLimitDescriptor{}
	entries, hits, own := strings.Cut(text, "@")
	if own {
		n, err := strconv.ParseInt(hits, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		d.IsNegativeHits = n < 0
		d.HitsAddend = wrapperspb.UInt64(uint64(max(n, -n)))
	}
	for e := range strings.SplitSeq(entries, ",") {
		key, value, _ := strings.Cut(e, "=")
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// mustParse reads one file that has to be good.
func mustParse(tb testing.TB, text string) *Config {
	tb.Helper()
	c, err := Parse([]File{{Name: "test.yaml", Text: []byte(text)}}, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// gather collects what a registry has.
func gather(tb testing.TB, g prometheus.Gatherer) []*dto.MetricFamily {
	tb.Helper()
	fs, err := g.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	return fs
}
