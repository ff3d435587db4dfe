//go:build unix && !linux

package redisserver

import "syscall"

// apart gives the process a group of its own, so that Ctrl-C in a terminal is left to this program.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
