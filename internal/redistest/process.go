package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// process is one run of a binary, its output in a file.
type process struct {
	cmd  *exec.Cmd
	log  string        // the file's path; each run begins it anew
	done chan struct{} // closed when the process has ended and been waited for
}

func startProcess(binary, dir, log string, args []string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close() // The child has its own descriptor.

	// No deadline: the process lives until the test ends it.
	cmd := exec.CommandContext(context.Background(), binary, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // How it ended shows in its log.
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits until the process has ended, at most for d, and reports whether it has.
func (p *process) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
		return false
	}
}

// kill ends the process without notice, paused or not.
func (p *process) kill() error {
	if p.ended() {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !p.wait(exitTime) {
		return err
	}
	if !p.wait(exitTime) {
		return fmt.Errorf("process %d outlived SIGKILL by %v", p.pid(), exitTime)
	}
	return nil
}

// tail returns the last lines of the log.
func (p *process) tail(n int) string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
