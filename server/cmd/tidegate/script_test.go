package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidegate-go/tidegate/internal/redistest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tidegate": main})
}

// TestScript runs the command as people do; testdata/README says which words they have besides testscript's.
func TestScript(t *testing.T) {
	runScripts(t, "testdata/script/*.txt", nil)
}

// TestScriptRedis runs the scripts that share a Redis, whose URL is $REDIS.
func TestScriptRedis(t *testing.T) {
	srv := redistest.StartTCP(t)
	runScripts(t, "testdata/redis/*.txt", func(env *testscript.Env) {
		env.Setenv("REDIS", srv.URL())
	})
}

func runScripts(t *testing.T, pattern string, setup func(*testscript.Env)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts are at %s: %v", pattern, err)
	}
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command lasts a second longer under the race detector
			examples, err := filepath.Abs("../../../examples/rules")
			if err != nil {
				return err
			}
			env.Setenv("EXAMPLES", examples)
			env.Values[processesKey{}] = map[string]*process{}
			// A port that nothing listens on: it was free a moment ago, and the kernel gives it out last.
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Setenv("NOBODY", l.Addr().String())
			if setup != nil {
				setup(env)
			}
			return l.Close()
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"until":    until,
			"capture":  capture,
			"admitted": admitted,
			"charged":  charged,
			"http":     request,
			"start":    start,
			"feed":     feed,
			"await":    await,
			"signal":   sendSignal,
			"ends":     ends,
			"hang":     hang,
			"appears":  appears,
			"listens":  redisIs("listens", true, true),
			"stopped":  redisIs("stopped", true, false),
			"deaf":     redisIs("deaf", false, false),
		},
	})
}

// command is the command of this test binary, to run in the script's place and environment.
func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, "tidegate")
		if _, err := os.Stat(path); err != nil {
			continue
		}
		cmd := exec.Command(path, args...)
		cmd.Dir = ts.MkAbs(".")
		for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCOVERDIR", "GORACE", "TIDEGATE_STORE", "TIDEGATE_TOKEN", "TIDEGATE_CONFIG",
			"TIDEGATE_DRAIN_TIME", "TIDEGATE_LOG_FORMAT", "TIDEGATE_REPLICAS", "TIDEGATE_LISTN", "TIDEGATE_PORT",
		} {
			cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
		}
		return cmd
	}
	ts.Fatalf("there is no tidegate in PATH")
	return nil
}

// exits CODE ARG... runs the command and holds it to its exit code; with code 2 also to one to three lines on stderr that
// are no usage text, and nothing on stdout unless a summary was asked for.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARG...")
	}
	var stdout, stderr bytes.Buffer
	cmd := command(ts, args[1:])
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	code := exitCode(ts, cmd.Run())
	fmt.Fprint(ts.Stdout(), stdout.String())
	fmt.Fprint(ts.Stderr(), stderr.String())
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s\n%s%s", code, args[0], stdout.String(), stderr.String())
	}
	if code != exitMisuse {
		return
	}
	if lines := strings.Count(stderr.String(), "\n"); lines < 1 || lines > 3 {
		ts.Fatalf("%d lines on stderr, want 1 to 3\n%s", lines, stderr.String())
	}
	if strings.Contains(stderr.String(), "Usage") || strings.Contains(stderr.String(), "--help  ") {
		ts.Fatalf("there is usage text on stderr")
	}
	if stdout.Len() > 0 && !slices.Contains(args, "--repeat") {
		ts.Fatalf("there is a result on stdout: %s", stdout.String())
	}
}

func exitCode(ts *testscript.TestScript, err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// until REGEXP ARG... runs the command again and again until its stdout has the text.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP ARG...")
	}
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		cmd := command(ts, args[1:])
		stdout, err := cmd.Output()
		exitCode(ts, err)
		if re.Match(stdout) {
			return
		}
	}
	ts.Fatalf("tidegate %s does not say %s", strings.Join(args[1:], " "), args[0])
}

// admitted BURST RATE ROOM holds the summary on stdout to what a bucket of that burst and that many tokens per second lets
// pass in the time that the summary tells. That time is between answers, and the store's between decisions, so that a busy
// machine needs room: ROOM tokens above, and below three quarters of those that came back.
func admitted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: admitted BURST RATE ROOM")
	}
	var n [3]float64
	for i, arg := range args {
		f, err := strconv.ParseFloat(arg, 64)
		ts.Check(err)
		n[i] = f
	}
	burst, back, room := n[0], n[1], n[2]
	var sum summaryResult
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &sum))
	back *= sum.ElapsedSeconds
	got := float64(sum.Allowed)
	if got > burst+back+room || got < burst+math.Floor(back/4) || sum.Allowed+sum.Denied != sum.Takes || sum.Errors != 0 {
		ts.Fatalf("admitted %v in %vs, want %v: %+v", got, sum.ElapsedSeconds, burst+math.Floor(back), sum)
	}
}

// charged holds the result of bench on stdout to allowed takes that were all charged.
func charged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: charged")
	}
	var r benchResult
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &r))
	if r.Charged == nil || *r.Charged != r.Allowed || r.Allowed == 0 || r.Takes != r.Allowed+r.Denied+r.Errors {
		ts.Fatalf("what was allowed was not charged: %s", ts.ReadFile("stdout"))
	}
}

// request METHOD URL [BODY [HEADER VALUE]...] prints the answer, headers and all, to stdout.
func request(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: http METHOD URL [BODY [HEADER VALUE]...]")
	}
	body := ""
	if len(args) > 2 {
		body = args[2]
	}
	req, err := http.NewRequest(args[0], args[1], strings.NewReader(body))
	ts.Check(err)
	for i := 3; i+1 < len(args); i += 2 {
		req.Header.Set(args[i], args[i+1])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	ts.Check(err)
	defer resp.Body.Close()
	fmt.Fprintln(ts.Stdout(), resp.Status)
	ts.Check(resp.Header.Write(ts.Stdout()))
	_, err = io.Copy(ts.Stdout(), resp.Body)
	ts.Check(err)
}

// capture REGEXP VARIABLE puts what the group matched in stdout into the variable.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture REGEXP VARIABLE")
	}
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	m := re.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) != 2 {
		ts.Fatalf("stdout does not have %s once", args[0])
	}
	ts.Setenv(args[1], m[1])
}

// hang URL sends half a request, and keeps its connection until the script ends.
func hang(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hang URL")
	}
	u, err := url.Parse(args[0])
	ts.Check(err)
	conn, err := net.Dial("tcp", u.Host)
	ts.Check(err)
	ts.Defer(func() { conn.Close() })
	_, err = io.WriteString(conn, "POST "+u.Path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
	ts.Check(err)
	// The server says that it waits for the body, so that the request runs from here on.
	_, err = conn.Read(make([]byte, 1))
	ts.Check(err)
}
