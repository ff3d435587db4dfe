package main

import (
	"fmt"
	"runtime"
)

// wakeWriter makes the writer look at what is pending. The mutex is held, or nobody else knows the connection yet.
func (c *rawConn) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default: // it has yet to look
	}
}

// write writes what is pending, all of it at once, until the connection fails. It is a goroutine of its own rather than whichever
// caller comes first: so no caller is kept by the requests of others, nor the reader by a server that does not read.
func (c *rawConn) write() {
	var frames []byte
	for {
		select {
		case <-c.wake:
		case <-c.over:
			return
		}
		runtime.Gosched() // callers who can run add theirs, so that they share a system call
		c.mu.Lock()
		frames, c.pending = c.pending, frames[:0]
		c.mu.Unlock()
		if _, err := c.nc.Write(frames); err != nil {
			c.fail(fmt.Errorf("writing: %w", err))
			return
		}
	}
}
