package redisserver

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// process is one run of the binary, its output in a file.
type process struct {
	cmd  *exec.Cmd
	log  string        // the file's path; each run begins it anew
	done chan struct{} // closed when the process has ended and been waited for
}

func startProcess(binary, log string, args ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own descriptor
	//nolint:gosec,noctx // the binary is the server that PATH names; it lives until it is killed, whatever context it began in
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = apart()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

// kill ends the process without notice, stopped or not, and waits until it has gone.
func (p *process) kill() error {
	_ = p.cmd.Process.Kill() // it may have ended
	timer := time.NewTimer(exitTime)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("redis-server, process %d, outlived SIGKILL by %v", p.cmd.Process.Pid, exitTime)
	}
}

// lastLine is the last that the process said.
func (p *process) lastLine() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	text := strings.TrimSpace(string(b))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
