package redistest

import "syscall"

// dieWithParent makes the kernel kill the server when the thread that started it ends. The Go runtime ends a thread
// only when a goroutine exits while locked to it, so in practice that is when the test process dies.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
