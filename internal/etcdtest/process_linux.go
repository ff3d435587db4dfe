package etcdtest

import "syscall"

// dieWithParent makes the kernel end a server whose test has died.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
