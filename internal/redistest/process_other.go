//go:build !linux

package redistest

import "syscall"

// dieWithParent does nothing here: a test process that is killed leaves its servers behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
