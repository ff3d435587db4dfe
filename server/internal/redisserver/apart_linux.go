package redisserver

import "syscall"

// apart gives the process a group of its own, so that Ctrl-C in a terminal is left to this program, and makes the kernel
// kill it when this program ends, however that comes.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
