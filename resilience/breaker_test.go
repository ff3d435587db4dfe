package resilience

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidegate-go/tidegate"
)

// A story is of calls, named by letters: "+a" begins one, "a" is answered, "a!" fails, "open" and "close" are the
// heartbeat's. The last word is what the breaker then is.
func TestBreaker(t *testing.T) {
	for story, want := range map[string]string{
		"":                                   "closed",
		"+a a!":                              "closed",
		"+a a! +b b! +c c!":                  "open",
		"+a +b +c a! b! c!":                  "open",
		"+a a! +b b! +c c +d d! +e e!":       "closed", // an answer ends the row
		"+a a! +b b! +c c +d d! +e e! +f f!": "open",
		"+a open close a!":                   "closed 0", // RB-128: of an earlier state
		"+a +b +c open close a! b! c!":       "closed 0",
		"+a open a":                          "open", // an answer does not close it: the heartbeat does
		"+a open close +b b! a +c c! +d d!":  "open", // nor does an old answer end a row
		"open +a a!":                         "open",
		"open close +a a! +b b!":             "closed 2",
		"+a a! +b b! open close +c c!":       "closed 1",
		"open +a open close":                 "closed 0",
		"close":                              "closed 0",
		"+a open close open close a! +b b!":  "closed 1",
	} {
		b := breaker{limit: 3}
		calls := map[string]uint64{}
		for word := range strings.FieldsSeq(story) {
			switch {
			case word == "open" || word == "close":
				b.set(word == "open")
			case word[0] == '+':
				calls[word[1:]], _ = b.begin()
			case strings.HasSuffix(word, "!"):
				b.failed(calls[word[:1]])
			default:
				b.succeeded(calls[word])
			}
		}
		w, closed := b.begin()
		state, n, counted := strings.Cut(want, " ")
		if closed != (state == "closed") || counted && byte('0'+w&maxFailures) != n[0] {
			t.Errorf("%s: closed %t with %d failures, want %s", story, closed, w&maxFailures, want)
		}
	}
}

// Of many that fail at once, one opens it.
func TestBreakerOpensOnce(t *testing.T) {
	for range 100 {
		b := breaker{limit: 5}
		var opened atomic.Int64
		var all sync.WaitGroup
		begun, _ := b.begin()
		for range 50 {
			all.Go(func() {
				if b.failed(begun) {
					opened.Add(1)
				}
			})
		}
		all.Wait()
		if w, closed := b.begin(); opened.Load() != 1 || closed || w&maxFailures != 0 {
			t.Fatalf("opened %d times; %x", opened.Load(), w)
		}
	}
}

// What counts as a failure of the store, and what as nothing: RB-081, RB-089.
func TestJudge(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	here := context.Background()
	down := &tidegate.StoreError{Op: "take", Err: errors.New("connection refused")}
	for _, c := range []struct {
		name   string
		caller context.Context
		own    bool
		err    error
		want   verdict
	}{
		{"an answer", here, true, nil, answered},
		{"an unknown id", here, true, tidegate.ErrUnknownID, answered},
		{"a store error", here, true, down, failed},
		{"a store error under the caller's deadline", here, false, down, failed},
		{"our deadline", here, true, context.DeadlineExceeded, failed},
		{"the caller's deadline, before the context notices", here, false, context.DeadlineExceeded, left},
		{"a caller who left", gone, true, context.Canceled, left},
		{"a caller who left while the store failed", gone, true, down, left},
		{"an invalid limit", here, true, &tidegate.LimitError{Problem: "no rate"}, about},
		{"no reservations", here, true, tidegate.ErrUnsupported, about},
		{"a closed store", here, true, &tidegate.StoreError{Op: "take", Err: tidegate.ErrClosed}, about},
	} {
		if got := judge(c.caller, c.own, c.err); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestKinds(t *testing.T) {
	for text, want := range map[string]ErrorKind{
		"LOADING Redis is loading the dataset in memory":                    KindLoading,
		"READONLY You can't write against a read only replica.":             KindReadOnly,
		"OOM command not allowed when used memory > 'maxmemory'.":           KindMemory,
		"MISCONF Redis is configured to save RDB snapshots, but …":          KindMemory,
		"BUSY Redis is busy running a script.":                              KindBusy,
		"WRONGPASS invalid username-password pair or user is disabled.":     KindAuth,
		"NOAUTH Authentication required.":                                   KindAuth,
		"CLUSTERDOWN The cluster is down":                                   KindClusterDown,
		"MOVED 3999 127.0.0.1:6381":                                         KindClusterDown,
		"ASK 3999 127.0.0.1:6381":                                           KindClusterDown,
		"NOREPLICAS Not enough good replicas to write.":                     KindReadOnly,
		"ERR Protocol error: unauthenticated multibulk length":              KindAuth,
		"ERR max number of clients reached":                                 KindConnection,
		"WRONGTYPE Operation against a key holding the wrong kind of value": KindWrongType,
		"what is this": KindOther,
	} {
		if got := kindOf(&tidegate.StoreError{Op: "take", Err: errors.New(text)}); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for _, c := range []struct {
		err  error
		kind ErrorKind
		ran  bool
	}{
		{nil, NoError, false},
		{context.DeadlineExceeded, KindTimeout, true},
		{io.EOF, KindConnection, true},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, KindConnection, true},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, KindConnection, false},
		{errors.New("READONLY"), KindReadOnly, false},
	} {
		if kindOf(c.err) != c.kind || mayHaveRun(c.err) != c.ran {
			t.Errorf("%v: %q, may have run %t", c.err, kindOf(c.err), mayHaveRun(c.err))
		}
	}
}
