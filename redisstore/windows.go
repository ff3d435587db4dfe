package redisstore

import (
	"context"

	"github.com/tidegate-go/tidegate/internal/algo"
)

// Takes of fixed windows alone are decided by the windows script, as those of plain buckets are by the run and several
// scripts: at a third of what the take script takes for them.

// isWindow reports whether the windows script may decide takes of the limit.
func (l *compiled) isWindow() bool { return l.window != "" }

// decideWindows decides takes of windows in order, each all or nothing. It returns the takes that the script left alone.
func (s *Store) decideWindows(ctx context.Context, p *plan) (left []*taking, err error) {
	takes := p.windows
	keys := usesOf(takes)
	sent, forgot := s.clock(), s.denied.forgot.Load()
	reply, err := s.run(ctx, s.scripts.windows, s.timed(p.windowsCommand(keys)))
	if err != nil {
		return nil, err
	}
	b, ok := readWindows(reply, keys)
	if !ok {
		return nil, badReply(reply)
	}
	told := s.clock()
	for _, t := range takes {
		if t.needs(func(u *use) bool { return b.alone[u.index-1] }) {
			left = append(left, t)
			continue
		}
		b.decide(t)
		if d := &t.decisions[0]; len(t.items) == 1 && !d.Allowed && !s.cfg.NoDeniedCache {
			s.denied.note(&t.items[0], refusal{sent: sent, told: told, decision: *d}, d.RetryAfter, forgot)
		}
	}
	return left, nil
}

// windowsCommand makes the command of the windows script, and sorts the keys as it has them.
func (p *plan) windowsCommand(keys []*use) []any { return p.ledgerCommand(keys, p.windows) }

func readWindows(reply any, keys []*use) (b ledger, ok bool) {
	fields := readNumbers(reply)
	b.states, b.alone, b.windows = make([]algo.State, len(keys)), make([]bool, len(keys)), make([]algo.Window, len(keys))
	if b.now, ok = fields.next(); !ok {
		return b, false
	}
	for i, u := range keys {
		held, ok := fields.next()
		switch {
		case ok:
		case fields.alone:
			u.limit.misses.Store(misses)
			b.alone[i] = true
			continue
		default:
			return b, false
		}
		w := u.limit.params.Window(b.now)
		if held > 0 {
			b.states[i] = algo.Flat(w.End, held)
		}
		u.limit.params.Load(&b.states[i], b.now, w)
		b.windows[i] = w
	}
	return b, fields.atEnd()
}
