package redisstore

import "context"

// sender sends batches for others, and keeps its room from one to the next.
type sender struct {
	batch, late []*waiter
	takes       []*taking
	plan        plan
}

// sender returns one that rests, or a new one.
func (bs *batches) sender() *sender {
	if x, ok := bs.senders.Get().(*sender); ok {
		return x
	}
	return new(sender)
}

// rest keeps the sender's room until there is something to send again, and nothing of what it has sent.
func (bs *batches) rest(x *sender) {
	clear(x.batch[:cap(x.batch)])
	clear(x.takes[:cap(x.takes)])
	x.late = nil // which are still to be told
	x.plan.forget()
	bs.senders.Put(x)
}

// send sends what is ready, batch after batch, until nothing is.
func (d *dispatcher) send(x *sender) {
	for {
		linger(maxTakes, d.waiting)
		d.mu.Lock()
		d.forming--
		x.batch, x.late = d.form(x.batch[:0], x.late[:0])
		if len(x.batch) == 0 {
			d.senders--
			d.inFlight--
			if d.queued == 0 {
				d.lately.Store(0)
			}
			d.spawn()
			late := x.late
			d.mu.Unlock()
			d.store.batches.rest(x)
			d.deliver(late)
			return
		}
		flying := 0
		for _, w := range x.batch {
			flying += w.times
		}
		d.flying += flying
		d.spawn() // what did not fit
		d.mu.Unlock()
		d.deliver(x.late)

		x.decide(d.store)

		d.mu.Lock()
		d.flying -= flying
		d.forming++ // callers that are told now and ask again at once shall find somebody who forms
		for _, w := range x.batch {
			d.free(w)
		}
		if d.full() { // nobody who is told now needs to be waited for
			d.forming--
			d.spawn()
			d.forming++
		}
		d.mu.Unlock()
		d.deliver(x.batch)
	}
}

// decide has the store decide the batch.
func (x *sender) decide(s *Store) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Timeout)
	defer cancel()
	x.takes = x.takes[:0]
	for _, w := range x.batch {
		x.takes = append(x.takes, &w.taking)
	}
	s.decideBatch(ctx, x.takes, &x.plan)
	s.failWaiting(x.takes)
}
