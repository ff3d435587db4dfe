package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate/internal/redistest"
)

const serviceToken = "a long random word"

var commandDir string

// removeCommand removes what command built.
func removeCommand() {
	if commandDir != "" {
		_ = os.RemoveAll(commandDir)
	}
}

// command builds the command once, and returns the way to it.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tidegate-e2e-")
	if err != nil {
		return "", err
	}
	commandDir = dir
	path := filepath.Join(dir, "tidegate")
	build := exec.Command("go", "build", "-o", path, "./cmd/tidegate")
	build.Dir = filepath.Join("..", "server")
	if out, err := build.CombinedOutput(); err != nil {
		return path, &exec.Error{Name: "go build: " + string(out), Err: err}
	}
	return path, nil
})

// service is the command as it serves.
type service struct {
	url string
}

// output is what a process writes, for a goroutine that waits for it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

// startService starts the service until the test ends. Where token is empty it has none.
func startService(t *testing.T, token string, args ...string) *service {
	t.Helper()
	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "TIDEGATE_TOKEN="+token)
	var stderr output
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := <-ended; err != nil {
			t.Errorf("the service: %v\n%s", err, &stderr)
		}
	})
	for start := time.Now(); time.Since(start) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
		if m := listening.FindStringSubmatch(stderr.String()); m != nil {
			return &service{url: m[1]}
		}
	}
	t.Fatalf("the service does not listen:\n%s", &stderr)
	return nil
}

// take answers the limit's burst and whether the take passed.
func (s *service) take(t *testing.T, body string) (limit int64, allowed bool) {
	t.Helper()
	limit, allowed, err := s.try(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	return limit, allowed
}

func (s *service) try(ctx context.Context, body string) (limit int64, allowed bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/take", strings.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, false, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, false, err
	}
	var d struct {
		Limit   int64
		Allowed bool
	}
	err = json.Unmarshal(b, &d)
	return d.Limit, d.Allowed, err
}

// traffic takes from the service, so many times a second for each body, until the test ends.
func (s *service) traffic(t *testing.T, every time.Duration, bodies ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if _, _, err := s.try(ctx, bodies[i%len(bodies)]); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
}

const pageRules = `version: 1
rules:
  - name: per-user
    match: {path: /api/**}
    key: [user]
    limit: 600/min burst 5
  - name: login
    match: {path: /login}
    key: [ip]
    limit: 5/min
    shadow: true
`

func writeRules(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// redisWithRules returns the address of a Redis that holds the rules.
func redisWithRules(t *testing.T, text string) string {
	t.Helper()
	url := redistest.StartTCP(t).URL()
	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), path, "rules", "push", writeRules(t, text), "--store", url).CombinedOutput(); err != nil {
		t.Fatalf("rules push: %v\n%s", err, out)
	}
	return url
}
