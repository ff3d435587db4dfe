package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// processesKey is where a script keeps the commands that it started, by name.
type processesKey struct{}

// process is a command under way in the background.
type process struct {
	cmd    *exec.Cmd
	stdout watchedBuffer
	stderr watchedBuffer
	done   chan struct{}
	err    error // of Wait; once done is closed
}

// patience is how long a script waits for a process before it fails: long, as it is never waited out by one that works.
const patience = time.Minute

// start NAME ARG... starts the command in the background; it is killed when the script ends.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME ARG...")
	}
	background(ts, args[0], command(ts, args[1:]))
}

// feed NAME FILE ARG... starts the command in the background, writes the file to its stdin, which stays open, and returns when the
// command has read all that does not fit into a pipe.
func feed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: feed NAME FILE ARG...")
	}
	cmd := command(ts, args[2:])
	stdin, err := cmd.StdinPipe()
	ts.Check(err)
	text := ts.ReadFile(args[1])
	background(ts, args[0], cmd)
	_, err = io.WriteString(stdin, text)
	ts.Check(err)
}

func background(ts *testscript.TestScript, name string, cmd *exec.Cmd) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	p.stdout.wrote, p.stderr.wrote = make(chan struct{}), make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	ts.Check(p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	ts.Defer(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	})
	ts.Value(processesKey{}).(map[string]*process)[name] = p
}

func named(ts *testscript.TestScript, name string) *process {
	p := ts.Value(processesKey{}).(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("no process %s was started", name)
	}
	return p
}

// await NAME REGEXP [VARIABLE] waits for the text on the process's stderr, and puts what its group matched into the variable.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: await NAME REGEXP [VARIABLE]")
	}
	p := named(ts, args[0])
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	timeout := time.After(patience)
	for {
		text, more := p.stderr.text()
		if m := re.FindStringSubmatch(text); m != nil {
			if len(args) == 3 {
				ts.Setenv(args[2], m[1])
			}
			return
		}
		select {
		case <-more:
		case <-p.done:
			if text, _ := p.stderr.text(); !re.MatchString(text) {
				ts.Fatalf("%s ended without %s: %v\n%s", args[0], args[1], p.err, text)
			}
		case <-timeout:
			ts.Fatalf("%s does not say %s\n%s", args[0], args[1], text)
		}
	}
}

// signal NAME INT|TERM sends a signal to the process.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM}
	if neg || len(args) != 2 || signals[args[1]] == nil {
		ts.Fatalf("usage: signal NAME INT|TERM")
	}
	ts.Check(named(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

// ends NAME CODE waits for the end of the process, holds it to its exit code, or to being ended by a signal where that is
// -1, and prints what it wrote.
func ends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ends NAME CODE")
	}
	p := named(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s does not end", args[0])
	}
	stdout, _ := p.stdout.text()
	stderr, _ := p.stderr.text()
	fmt.Fprint(ts.Stdout(), stdout)
	fmt.Fprint(ts.Stderr(), stderr)
	if code := exitCode(ts, p.err); strconv.Itoa(code) != args[1] {
		ts.Fatalf("%s ended with %d, want %s\n%s", args[0], code, args[1], stderr)
	}
}

// watchedBuffer holds what a process wrote, and tells when there is more.
type watchedBuffer struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{} // closed at the next write
}

func (w *watchedBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.wrote)
	w.wrote = make(chan struct{})
	return w.b.Write(p)
}

// text returns what was written, and a channel that is closed when there is more.
func (w *watchedBuffer) text() (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String(), w.wrote
}
