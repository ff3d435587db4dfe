package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// eventually calls f until it returns true.
func soon(ts *testscript.TestScript, what string, f func() bool) {
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// appears GLOB REGEXP VARIABLE [BUT] waits for a file that has the text, and puts what its group matched into the variable. What is
// BUT does not count: that of a process that has ended, whose file is not gone yet.
func appears(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 && len(args) != 4 {
		ts.Fatalf("usage: appears GLOB REGEXP VARIABLE [BUT]")
	}
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	soon(ts, "no "+args[0]+" has "+args[1], func() bool {
		names, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		for _, name := range names {
			b, _ := os.ReadFile(name) // it may be gone again
			if m := re.FindSubmatch(b); m != nil && (len(args) < 4 || string(m[1]) != args[3]) {
				ts.Setenv(args[2], string(m[1]))
				return true
			}
		}
		return false
	})
}

// answersPing asks a Redis whether it is there.
func answersPing(addr string) (connected, answered bool) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false, false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(300 * time.Millisecond))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return true, false
	}
	n, _ := c.Read(make([]byte, 16))
	return true, n > 0
}

// redisIs returns the command that waits until the Redis at an address is so.
func redisIs(what string, connected, answered bool) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("usage: %s HOST:PORT", what)
		}
		soon(ts, args[0]+" "+what, func() bool {
			c, a := answersPing(args[0])
			return c == connected && a == answered
		})
	}
}
