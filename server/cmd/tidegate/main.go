// Command tidegate runs the rate limiting service, and asks a store of limits questions from the shell.
//
//	tidegate serve --store redis://localhost:6379
//	tidegate take --limit "10/s burst 20" --key user:42
//
// Results go to stdout and everything else to stderr. It exits with 0 if what was asked is allowed, 1 if it is denied, and
// 2 if the command was misused or no decision could be made; then one to three lines on stderr say why.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// The exit codes.
const (
	exitAllowed = 0
	exitDenied  = 1
	exitMisuse  = 2
)

// exitError ends the command with a code of its own, and with no word where err is nil.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// errDenied ends a command whose result says no, which was printed already.
var errDenied = &exitError{code: exitDenied}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run carries out a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitAllowed
	}
	if err.Error() != "" {
		fmt.Fprintf(stderr, "%s: %s\n", cmd.CommandPath(), printable(err.Error()))
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return exitMisuse
}
