// Package afterwards makes calls that come after an answer, such as those by which what a request held is given back, so that
// neither the answer waits for them nor the end of the program cuts them off.
//
// An answer ends when its handler or its interceptors have returned: whatever they still do makes the client wait. The
// packages httplimit and grpclimit give back here what they hold. See docs/decisions/0053-after-the-response.md.
//
// It may import the standard library alone.
package afterwards
