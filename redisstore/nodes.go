package redisstore

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
)

// In a cluster a batch is of one slot, so that callers of many keys would each pay for a call of their own. Commands that
// are ready together for one node therefore leave as one pipeline: as with takes (batch.go), one that finds its node idle
// goes out at once on its caller's goroutine, and those that come while maxInFlight calls are under way leave together.

// maxPiped bounds the commands of a pipeline.
const maxPiped = 128

// nodes holds the pipes to the nodes of a cluster.
type nodes struct {
	store *Store
	mu    sync.Mutex
	pipes map[*redis.Client]*pipe
}

// pipe collects the commands of a node, and sends them.
type pipe struct {
	store    *Store
	mu       sync.Mutex
	waiting  []*piped
	inFlight int // calls, and senders about to make one
	senders  int // goroutines that send for others
	forming  int // senders that are about to look at what is waiting
}

// piped is a command that is sent by another goroutine than its caller's.
type piped struct {
	cmd  once
	sent bool
	gone bool // its caller left before it was sent
	done chan struct{}
}

// process sends a command to the node that has the key, and returns its error, or the context's where that ended before.
// A command that has not been sent by then is not any more. One that has been is waited for, so that whoever gives up a
// take knows what to give back, unless it is for want of time.
func (ns *nodes) process(ctx context.Context, cmd once, key string) error {
	cluster, _ := ns.store.client.(*redis.ClusterClient)
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return err
	}
	p := ns.pipe(node)
	p.mu.Lock()
	if p.senders == 0 && p.inFlight < maxInFlight && len(p.waiting) == 0 {
		p.inFlight++
		p.mu.Unlock()
		err := cluster.Process(ctx, cmd)
		p.mu.Lock()
		p.inFlight--
		p.spawn()
		p.mu.Unlock()
		return err
	}
	if len(p.waiting) >= maxQueued {
		p.mu.Unlock()
		return &tidegate.StoreError{Op: "take", Err: errQueueFull}
	}
	w := &piped{cmd: cmd, done: make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.spawn()
	p.mu.Unlock()
	select {
	case <-w.done:
		return cmd.Err()
	case <-ctx.Done():
	}
	p.mu.Lock()
	w.gone = !w.sent
	p.mu.Unlock()
	if w.gone || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	<-w.done // at most as long as the store's own timeout
	return cmd.Err()
}

// pipe returns the pipe to a node. Those of nodes that have gone are forgotten when there are too many.
func (ns *nodes) pipe(node *redis.Client) *pipe {
	const many = 64
	ns.mu.Lock()
	defer ns.mu.Unlock()
	p := ns.pipes[node]
	if p == nil {
		if ns.pipes == nil || len(ns.pipes) >= many {
			ns.pipes = map[*redis.Client]*pipe{} // who is using one has it
		}
		p = &pipe{store: ns.store}
		ns.pipes[node] = p
	}
	return p
}

// spawn starts a sender if something is waiting and nobody will look at it.
func (p *pipe) spawn() {
	if len(p.waiting) > 0 && p.forming == 0 && p.inFlight < maxInFlight {
		p.forming++
		p.senders++
		p.inFlight++
		go p.send()
	}
}

// send sends what is waiting, pipeline after pipeline, until nothing is.
func (p *pipe) send() {
	var batch []*piped // used again and again
	for {
		linger(maxPiped, func() int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.waiting)
		})
		p.mu.Lock()
		p.forming--
		if batch = p.form(batch[:0]); len(batch) == 0 {
			p.senders--
			p.inFlight--
			p.mu.Unlock()
			return
		}
		p.spawn() // what did not fit
		p.mu.Unlock()

		ctx, cancel := context.WithTimeout(context.Background(), p.store.cfg.Timeout)
		pl := p.store.client.Pipeline()
		for _, w := range batch {
			_ = pl.Process(ctx, w.cmd) // only queues it
		}
		_, _ = pl.Exec(ctx) // each command has its own error
		cancel()

		p.mu.Lock()
		p.forming++ // callers that are told now and ask again at once shall find somebody who forms
		p.mu.Unlock()
		for i, w := range batch {
			close(w.done)
			batch[i] = nil
		}
	}
}

// form takes what is sent next off what is waiting.
func (p *pipe) form(batch []*piped) []*piped {
	n := 0
	for _, w := range p.waiting {
		if len(batch) == maxPiped {
			break
		}
		n++
		if !w.gone {
			w.sent = true
			batch = append(batch, w)
		}
	}
	rest := copy(p.waiting, p.waiting[n:])
	clear(p.waiting[rest:])
	p.waiting = p.waiting[:rest]
	return batch
}
