package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/internal/redistest"
)

// deployDir is where the files are that run and watch the service.
const deployDir = "../../../deploy"

func deployed(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(deployDir, name))
	must(t, err)
	return b
}

// tool is the path of a program. Without it the test is skipped, or fails where programs are required.
func tool(t *testing.T, name string, required bool) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if required && os.Getenv("TIDEGATE_REQUIRE_SERVERS") != "" {
			t.Fatalf("%s is missing; make test installs it: %v", name, err)
		}
		t.Skipf("%s is missing: %v", name, err)
	}
	return path
}

// runTool runs a program in a directory, and fails the test with what it says unless it ends well.
func runTool(t *testing.T, dir string, stdin []byte, path string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(path), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// busyMetrics is what /metrics says of a service that has seen all that there is to see: a store in Redis that was away,
// limits of Envoy, and a change of its rules.
func busyMetrics(t *testing.T, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "edge.yaml"), []byte(
		"domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 1}\n"), 0o600))
	rulesFile := filepath.Join(t.TempDir(), "rules.yaml")
	must(t, os.WriteFile(rulesFile, []byte("version: 1\nrules:\n  - {name: r, key: [user], limit: 1/day burst 2}\n"+
		"  - {name: trial, key: [user], limit: 1/day burst 1, shadow: true}\n"+
		"  - {name: wide, key: [tenant], limit: 1000/day burst 1000}\n"), 0o600))
	redis := redistest.StartTCP(t)
	s := serve(t, append([]string{"--store", redis.URL(), "--store-timeout", "9s", "--rules", rulesFile, "--envoy-config", dir, "--grpc", "127.0.0.1:0"}, args...)...)
	take := func() {
		for range 4 {
			_, _ = s.take(`{"attributes":{"user":"a"}}`)
			_, _ = s.take(`{"attributes":{"tenant":"t"}}`)
		}
	}
	take()
	for range 2 {
		_, _ = s.post("/json", `{"domain":"edge","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`)
	}
	redis.Kill()
	s.awaits(t, "the store is away")
	take()
	redis.Restart()
	s.awaits(t, "the store decides again")
	for end := time.Now().Add(patience); time.Now().Before(end); {
		take() // which pays what the key owes, if nobody did before
		if text := scrape(t, s); bytes.Contains(text, []byte("tidegate_fallback_repaid_tokens_total{")) {
			return text
		}
	}
	t.Fatal("what passed while the store was away is not paid for")
	return nil
}

func scrape(t *testing.T, s *served) []byte {
	t.Helper()
	resp, err := testClient.Get(s.url + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("/metrics answers %s", resp.Status)
	}
	return b
}

// TestMetricsAreClean asks promtool about the metrics of services of every kind.
func TestMetricsAreClean(t *testing.T) {
	promtool := tool(t, "promtool", true)
	for name, metrics := range map[string]func() []byte{
		"memory": func() []byte { return scrape(t, serve(t)) },
		"redis":  func() []byte { return busyMetrics(t) },
		"envoy":  func() []byte { return busyMetrics(t, "--envoy-metrics") },
	} {
		t.Run(name, func(t *testing.T) {
			if out := runTool(t, ".", metrics(), promtool, "check", "metrics"); out != "" {
				t.Errorf("promtool says:\n%s", out)
			}
		})
	}
}

func TestAlertsFire(t *testing.T) {
	promtool := tool(t, "promtool", true)
	dir := filepath.Join(deployDir, "prometheus")
	runTool(t, dir, nil, promtool, "check", "rules", "--lint=all", "--lint-fatal", "tidegate.rules.yaml")
	runTool(t, dir, nil, promtool, "test", "rules", "tidegate.test.yaml")
	// Each alert is tested to be quiet; that each is also seen to fire is for the file of tests to say.
	tests := string(deployed(t, "prometheus/tidegate.test.yaml"))
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(deployed(t, "prometheus/tidegate.rules.yaml")), -1) {
		quiet := strings.Contains(tests, m[1]+", exp_alerts: []}")
		fires := strings.Contains(tests, `alertname="`+m[1]+`"`) || strings.Contains(tests, "alertname: "+m[1]+"\n")
		if !quiet || !fires {
			t.Errorf("%s is tested to be quiet: %v; to fire: %v", m[1], quiet, fires)
		}
	}
}

var (
	aMetric    = regexp.MustCompile(`\b(tidegate|process|go)_[a-z0-9_]+\b`)
	typedAs    = regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`)
	labelNames = regexp.MustCompile(`by \(([a-z, ]+)\)`)
)

// TestMetricsExist holds the board and the alerts to metrics that a service has, and with values.
func TestMetricsExist(t *testing.T) {
	text := busyMetrics(t, "--envoy-metrics")
	have := map[string]bool{}
	for _, m := range typedAs.FindAllStringSubmatch(string(text), -1) {
		have[m[1]] = true
		if m[2] == "histogram" {
			have[m[1]+"_bucket"], have[m[1]+"_count"], have[m[1]+"_sum"] = true, true, true
		}
	}
	for _, name := range []string{"grafana/tidegate.json", "prometheus/tidegate.rules.yaml", "prometheus/tidegate.test.yaml"} {
		asked := map[string]bool{}
		for _, m := range aMetric.FindAllString(string(deployed(t, name)), -1) {
			asked[m] = true
		}
		if len(asked) < 10 {
			t.Errorf("%s asks for %d metrics: is it what it should be?", name, len(asked))
		}
		for _, m := range slices.Sorted(maps.Keys(asked)) {
			if !have[m] {
				t.Errorf("%s asks for %s, which no service has", name, m)
			}
		}
		for _, m := range labelNames.FindAllStringSubmatch(string(deployed(t, name)), -1) {
			for label := range strings.SplitSeq(m[1], ", ") {
				switch label {
				case "job", "instance", "alertname": // of Prometheus itself
				default:
					if !bytes.Contains(text, []byte(label+`="`)) {
						t.Errorf("%s groups by %s, a label that no metric has", name, label)
					}
				}
			}
		}
	}
}

// TestBoard holds the board to being one that Grafana takes: each panel has a place of its own and says what it shows.
func TestBoard(t *testing.T) {
	type panel struct {
		ID          int
		Title       string
		Type        string
		Description string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
			Expr       string
			Datasource struct{ UID string }
		}
	}
	var board struct {
		UID, Title    string
		SchemaVersion int
		Panels        []panel
	}
	must(t, json.Unmarshal(deployed(t, "grafana/tidegate.json"), &board))
	if board.UID == "" || board.Title == "" || board.SchemaVersion == 0 || len(board.Panels) < 20 {
		t.Fatalf("this is no board: %s, %s, schema %d, %d panels", board.UID, board.Title, board.SchemaVersion, len(board.Panels))
	}
	seen, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		if seen[p.ID] {
			t.Errorf("two panels are number %d", p.ID)
		}
		seen[p.ID] = true
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("%s says not what it shows, or shows nothing", p.Title)
		}
		for _, q := range p.Targets {
			if q.Datasource.UID != "${datasource}" || q.Expr == "" {
				t.Errorf("%s asks %q of %q", p.Title, q.Expr, q.Datasource.UID)
			}
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %q or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
