package resilience

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	beatEvery = time.Second
	// probeEvery and probeJitter say how soon a heartbeat that failed is tried again.
	probeEvery, probeJitter = 100 * time.Millisecond, 100 * time.Millisecond
	// firstPhase is how far into a second of the store's clock the first replicas beat, phaseJitter how much that varies, and
	// beatSlack what is left for answers to be on their way.
	firstPhase, phaseJitter, beatSlack = 100 * time.Millisecond, 25 * time.Millisecond, 25 * time.Millisecond
	// minPhases is over how much of a second replicas are spread at least, however long a beat may wait for its answer.
	minPhases = 200 * time.Millisecond
	// beatFailures is how many heartbeats in a row must fail for the store to count as away, whatever takes are answered.
	beatFailures = 3
	// stageTime is when those who have not reported since the store is back have expired.
	stageTime = tidegate.ReplicaTTL * time.Second
	// stageEvery and stageJitter say how soon the next heartbeat is in a staged return.
	stageEvery, stageJitter = 50 * time.Millisecond, 50 * time.Millisecond
	// payTime is how long after all have gathered a return lasts, so that all have noticed, by their next heartbeat, and paid.
	payTime = 3 * (stageEvery + stageJitter)
	// flapTime is how soon after it closed the breaker must open again to be held open for longer, and maxHoldoff how long.
	flapTime, minHoldoff, maxHoldoff = time.Second, 200 * time.Millisecond, 5 * time.Second
)

// heart is what the heartbeat remembers from one beat to the next; it is the heartbeat's alone.
type heart struct {
	phase    time.Duration // where in a second of the store's clock this replica beats
	marker   string        // that this replica would leave, of no use twice
	seen     string        // that the store has
	failures int
	losses   int   // that were noticed since the log told of one
	warned   int64 // ns: when it did
	swept    int64 // ns: when the maps were
	stage    stage
}

// stage is a return that others may not know of yet.
type stage struct {
	since int64 // µs of the store's clock
	known int64 // how many replicas there were
	until time.Time
	// gathered is when all of them had reported or expired, and this one began to pay what it owes.
	gathered time.Time
}

// beginBeating draws the phase of this replica's beats: as late as a beat whose answer is lost can be tried again within the
// same second. So one that is lost costs no table, by which the shares of the others would add up without this one's.
func (s *Store) beginBeating() {
	s.beats.marker = rand.Text()
	last := beatEvery - phaseJitter - s.cfg.Timeout - probeEvery - probeJitter - beatSlack
	s.beats.phase = firstPhase + s.jitter(max(last-firstPhase, minPhases))
}

// beat tells the store that this replica is there, until the Store is closed.
func (s *Store) beat() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			s.leave()
			return
		case <-s.poke: // the breaker has opened: probe soon
			timer.Reset(s.probe())
		case <-timer.C:
			timer.Reset(s.beatOnce())
		}
	}
}

func (s *Store) probe() time.Duration { return probeEvery + s.jitter(probeJitter) }

func (s *Store) stageBeat() time.Duration { return stageEvery + s.jitter(stageJitter) }

// leave says goodbye, if the store can be told.
func (s *Store) leave() {
	if _, closed := s.breaker.begin(); !closed || s.registry == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Timeout)
	defer cancel()
	_, _ = s.registry.Beat(ctx, tidegate.Beat{ID: s.cfg.ID, Marker: s.beats.marker, Leave: true}) // else it expires
}

// beatOnce tells the store what this replica admitted and learns how things are, and returns when to do so again.
func (s *Store) beatOnce() time.Duration {
	h := &s.beats
	now := s.now()
	s.memories.sweep(now)
	if now-h.swept >= int64(beatEvery)/2 { // not with every probe
		h.swept = now
		s.made.sweep(now)
		s.permits.sweep(now)
	}
	perSecond, counts := s.demand.told(now)
	var t tidegate.Table
	begun, _ := s.breaker.begin()
	v, err := s.call(context.Background(), begun, "beat", func(ctx context.Context) (err error) {
		if s.registry == nil {
			_, err = s.shared.Now(ctx)
			return err
		}
		t, err = s.registry.Beat(ctx, tidegate.Beat{ID: s.cfg.ID, Admitted: perSecond, Marker: h.marker, Since: h.stage.since})
		return err
	})
	if v != answered {
		if h.failures++; h.failures >= beatFailures && s.breaker.set(true) {
			s.opened(err)
		}
		return s.probe()
	}
	h.failures = 0
	if s.registry == nil || t.Counted {
		s.demand.take(counts, now)
	}
	lost := h.seen != "" && t.Marker != h.seen
	if h.seen = t.Marker; h.seen == h.marker {
		h.marker = rand.Text() // left again, it would look as if nothing had been lost
	}
	if lost {
		s.lives.Add(1)
	}
	if _, closed := s.breaker.begin(); !closed {
		if !s.mayClose() {
			s.noteLost(lost)
			return s.probe()
		}
		if s.back(&t, lost); s.staged.Load() {
			return s.stageBeat() // who has reported since is known then
		}
	} else if lost {
		s.sayLost(now)
	}
	if s.staged.Load() && !s.stageOver(&t) {
		return s.stageBeat()
	}
	s.payInBackground()
	s.settleDown()
	return s.learn(&t)
}

// sayLost warns of data that were lost without an outage, at most once a minute: a server that evicts loses the marker too.
func (s *Store) sayLost(now int64) {
	h := &s.beats
	if h.losses++; h.warned > 0 && now-h.warned < int64(time.Minute) {
		return
	}
	s.cfg.Logger.Warn("tidegate: the store lost its data; keys start from what is remembered of them", "times", h.losses)
	h.warned, h.losses = max(now, 1), 0
}

// stageOver moves a staged return on, and reports whether it is over: all who were there charge the store again, and have
// had the time to charge what they owe.
func (s *Store) stageOver(t *tidegate.Table) bool {
	st, now := &s.beats.stage, s.clock()
	if st.gathered.IsZero() && t.Reported < st.known && now.Before(st.until) {
		return false
	}
	if st.gathered.IsZero() {
		st.gathered = now
		s.owedNow.Store(true)
	}
	s.payInBackground()
	if now.Sub(st.gathered) < payTime {
		return false
	}
	if !s.finish() {
		return false // it has gone away again
	}
	*st = stage{}
	return true
}

// learn keeps what a table tells, and returns when to beat next: once in each second of the store's clock.
func (s *Store) learn(t *tidegate.Table) time.Duration {
	if s.registry == nil {
		return beatEvery
	}
	s.known.Store(t.Replicas)
	var old tables
	if p := s.tables.Load(); p != nil {
		old = *p
	}
	if t.Present && (len(old) == 0 || old[0].Second != t.Second) {
		next := old.with(t)
		s.tables.Store(&next)
	}
	if share := s.cfg.Hooks.Share; share != nil {
		if rules := s.demand.rules.Load(); rules != nil {
			for r := range *rules {
				share(r, float64(s.share(r, tidegate.FailurePolicy{}))/whole)
			}
		}
	}
	into := time.Duration(t.Now%1_000_000) * time.Microsecond
	return beatEvery - into + s.beats.phase + s.jitter(2*phaseJitter) - phaseJitter
}

// mayClose reports whether the breaker has been open for long enough.
func (s *Store) mayClose() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock().Sub(s.since) >= s.flaps.holdoff
}

func (s *Store) noteLost(lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostIt = s.lostIt || lost
}

// warnOnce warns of a share that nobody chose.
func (s *Store) warnOnce() {
	if s.cfg.Replicas > 0 || s.known.Load() > 0 {
		return
	}
	s.mu.Lock()
	warned := s.warned
	s.warned = true
	s.mu.Unlock()
	if !warned {
		s.cfg.Logger.Warn("tidegate: the store has never answered, and Replicas is not set: this replica keeps to the whole limit")
	}
}
