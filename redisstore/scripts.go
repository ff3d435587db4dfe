package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // the digest by which Redis names scripts
	"embed"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var sources embed.FS

// clockLine is the one line of the scripts that reads the clock, and injectedClock what stands there for tests and
// replay: the time is then the last argument.
const (
	clockLine     = "local now = redis.call('TIME') now = now[1] * 1000000 + now[2]"
	injectedClock = "local now = tonumber(ARGV[#ARGV])"
)

// script is a script as the server knows it.
type script struct {
	source, digest string
	loading        chan struct{} // holds a token while nobody sends the source
	loads          atomic.Int64  // how often it was sent
}

// assemble makes a script of the files that it needs: each call builds the functions of a script anew, so that the
// commonest one should be short.
func assemble(injected bool, files ...string) *script {
	var b strings.Builder
	for _, f := range files {
		text, err := sources.ReadFile("scripts/" + f + ".lua")
		if err != nil {
			panic(err) // a file that is not embedded: no build of ours
		}
		b.Write(text)
	}
	source := b.String()
	if injected {
		source = strings.Replace(source, clockLine, injectedClock, 1)
	}
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	s := &script{source: source, digest: hex.EncodeToString(sum[:]), loading: make(chan struct{}, 1)}
	s.loading <- struct{}{}
	return s
}

// scriptSet is a script twice: for buckets alone, and for every kind of limit.
type scriptSet struct{ buckets, all *script }

// scripts are all that are sent: run, several and windows for the commonest takes, beat for the table of the replicas, rules for
// those that they share, the others for everything.
type scripts struct {
	run, several, windows, beat, rules *script
	take, settle, permit               scriptSet
}

func newScripts(injected bool) *scripts {
	set := func(main string) scriptSet {
		return scriptSet{
			buckets: assemble(injected, "clock", "head", "kinds", "bucket", "state", main),
			all:     assemble(injected, "clock", "head", "kinds", "bucket", "fixed", "sliding", "log", "permits", "state", main),
		}
	}
	return &scripts{
		run:     assemble(injected, "clock", "run"),
		several: assemble(injected, "clock", "head", "versioned", "several"),
		windows: assemble(injected, "clock", "head", "versioned", "windows"),
		beat:    assemble(injected, "clock", "beat"),
		rules:   assemble(injected, "clock", "rules"),
		take:    set("take"),
		settle:  set("settle"),
		permit:  set("permit"),
	}
}

// once is a command that no client may send twice: it may have run although the reply is lost.
type once struct{ *redis.Cmd }

// NoRetry keeps a cluster client from trying a command again after a timeout or a lost connection. It still follows
// MOVED and ASK, by which a server says that it did not run the command.
func (once) NoRetry() bool { return true }

// scriptArgs are the arguments of a command before the keys: see scriptCall.
const scriptArgs = 3

// scriptCall begins the command of a script of so many keys, to which keys and arguments are appended, in the room of a
// former one if that is enough.
func scriptCall(room []any, keys, size int) []any {
	if cap(room) < size {
		room = make([]any, 0, size)
	}
	return append(room[:0], nil, nil, keys)
}

// run calls the script by its digest, with the command that scriptCall began. A server that does not know it has not run
// it, so that it is sent whole then, by one caller at a time: the others find it known.
func (s *Store) run(ctx context.Context, sc *script, args []any) (any, error) {
	before := sc.loads.Load()
	reply, err := s.eval(ctx, "evalsha", sc.digest, args)
	if err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return reply, err
	}
	late := time.NewTimer(s.cfg.Timeout)
	defer late.Stop()
	select {
	case <-sc.loading:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, context.DeadlineExceeded
	}
	defer func() { sc.loading <- struct{}{} }()
	if sc.loads.Load() != before { // somebody sent it meanwhile, perhaps to another node
		reply, err = s.eval(ctx, "evalsha", sc.digest, args)
		if err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
			return reply, err
		}
	}
	reply, err = s.eval(ctx, "eval", sc.source, args)
	if err == nil {
		sc.loads.Add(1)
	}
	return reply, err
}

func (s *Store) eval(ctx context.Context, verb, script string, args []any) (any, error) {
	args[0], args[1] = verb, script
	cmd := once{redis.NewCmd(ctx, args...)}
	if key, ok := args[scriptArgs].(string); s.cluster && ok {
		if err := s.nodes.process(ctx, cmd, key); err != nil {
			return nil, err
		}
		return cmd.Result()
	}
	_ = s.client.Process(ctx, cmd) // the command has the error too
	return cmd.Result()
}
