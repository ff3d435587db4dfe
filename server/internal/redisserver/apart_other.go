//go:build !unix

package redisserver

import "syscall"

func apart() *syscall.SysProcAttr { return nil }
