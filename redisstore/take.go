package redisstore

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// most bounds the numbers that are sent, so that Lua has them exactly; nothing that a limit counts is larger.
const most = 1 << 52

// item is a charge as the script is told of it.
type item struct {
	charge *tidegate.Charge
	params *algo.Params
	tag    string
	key    string // empty for a limit without a bucket
}

// Take implements [tidegate.Store]. In a cluster, buckets of different slots cannot be decided at one moment: see split.
func (s *Store) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	ctx, cancel, err := s.begin(ctx, "take")
	if err != nil {
		return dst, err
	}
	defer cancel()
	items, err := s.items(charges)
	if err != nil {
		return dst, err
	}
	decisions := make([]tidegate.Decision, len(items))
	groups := s.groups(items)
	switch {
	case len(groups) == 0:
		err = s.takeStateless(items, decisions)
	case len(groups) == 1:
		err = s.takeGroup(ctx, items, nil, false, decisions)
	default:
		err = s.takeSplit(ctx, items, groups, decisions)
	}
	if err != nil {
		return dst, err
	}
	return append(dst, decisions...), nil
}

func (s *Store) items(charges []tidegate.Charge) ([]item, error) {
	items := make([]item, len(charges))
	for i := range charges {
		c := &charges[i]
		if err := algo.CheckCharge(c); err != nil {
			return nil, err
		}
		p, err := s.params(c.Limit)
		if err != nil {
			return nil, err
		}
		items[i] = item{charge: c, params: p}
		if p.Kind != algo.None && p.Kind != algo.Unlimited {
			items[i].tag = s.tag(c)
			items[i].key = s.bucketKey(c, items[i].tag)
		}
	}
	return items, nil
}

// takeStateless decides charges of which none has a bucket.
func (s *Store) takeStateless(items []item, decisions []tidegate.Decision) error {
	for i := range items {
		v := items[i].params.Check(nil, algo.Request{Cost: items[i].charge.Cost}, 0, algo.Window{})
		remaining, reset := items[i].params.Describe(nil, 0, algo.Window{})
		decisions[i] = decide(&items[i], v.OK, items[i].params.Capacity, remaining, v.Retry, reset, 0)
	}
	return nil
}

func decide(it *item, allowed bool, capacity, remaining, retry, reset, delay int64) tidegate.Decision {
	d := tidegate.Decision{
		Allowed:    allowed,
		Limit:      capacity,
		Remaining:  remaining,
		RetryAfter: duration(retry),
		ResetAfter: duration(reset),
		Delay:      duration(delay),
		Rule:       it.charge.Rule,
	}
	if it.params.Kind == algo.Unlimited {
		d.Source, d.Limit, d.Remaining = tidegate.SourceUnlimited, tidegate.NoLimit, tidegate.NoLimit
	}
	return d
}

// duration turns µs into a Duration; what is negative or too long is never.
func duration(us int64) time.Duration {
	if us < 0 || us > math.MaxInt64/int64(time.Microsecond) {
		return tidegate.Never
	}
	return time.Duration(us) * time.Microsecond
}

// takeGroup decides charges whose buckets share a slot. With dry they are evaluated only.
func (s *Store) takeGroup(ctx context.Context, items []item, hold *holding, dry bool, decisions []tidegate.Decision) error {
	var a arguments
	all := false
	for i := range items {
		a.spec(&items[i])
		all = all || items[i].key != "" && items[i].params.Kind != algo.Bucket
	}
	take := []any{1, len(items), boolean(dry), 0, 0, ""}
	h := holdingOf(items, hold)
	if h.id != "" {
		take[3], take[4], take[5] = a.keyIndex(s.recordKey(h.tag, h.id)), h.hold, h.id
	}
	for i := range items {
		c := items[i].charge
		index := 0
		if items[i].key != "" {
			index = a.keyIndex(items[i].key)
		}
		take = append(take, index, i+1, min(max(c.Cost, -most), most), min(int64(c.MaxWait/time.Microsecond), most), boolean(c.Shadow))
	}
	reply, err := s.ask(ctx, s.scripts.take, all, &a, take)
	if err != nil {
		return s.failure(ctx, "take", err)
	}
	list, _ := reply.([]any)
	if len(list) != 1 {
		return s.failure(ctx, "take", fmt.Errorf("the script answered %v", reply))
	}
	text, _ := list[0].(string)
	return s.decode(ctx, text, items, decisions)
}

// holding says what becomes of a take's record: its id, where it lies, and how long it is kept after the start.
type holding struct {
	id, tag string
	hold    int64 // µs
}

// holdingOf returns that of the charges, unless the take has one of its own. Permits remember their id themselves.
func holdingOf(items []item, own *holding) holding {
	if own != nil {
		return *own
	}
	h := holding{}
	for i := range items {
		c := items[i].charge
		if items[i].key == "" {
			continue
		}
		if h.tag == "" {
			h.tag = items[i].tag // where settleGroup looks for it
		}
		if c.ID != "" && c.Cost > 0 {
			h.id, h.hold = c.ID, min(int64(c.Hold/time.Microsecond), most)
		}
	}
	return h
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// decode reads the text of a take: six numbers a charge.
func (s *Store) decode(ctx context.Context, text string, items []item, decisions []tidegate.Decision) error {
	if msg, ok := strings.CutPrefix(text, "-"); ok {
		return s.failure(ctx, "take", fmt.Errorf("%s", msg))
	}
	fields := strings.Fields(text)
	if len(fields) != 6*len(items) {
		return s.failure(ctx, "take", fmt.Errorf("the script answered %q", text))
	}
	for i := range items {
		var n [6]int64
		for j := range n {
			v, err := strconv.ParseInt(fields[6*i+j], 10, 64)
			if err != nil {
				return s.failure(ctx, "take", fmt.Errorf("the script answered %q", text))
			}
			n[j] = v
		}
		decisions[i] = decide(&items[i], n[0] == 1, n[1], n[2], n[3], n[4], n[5])
		if items[i].params.Kind == algo.None {
			decisions[i].Limit, decisions[i].Remaining = 0, 0
		}
	}
	return nil
}

// arguments are the keys and the specs of a call.
type arguments struct {
	keys  []string
	items []*item
	asked map[string]string // boundaries by calendar that a script asked for
}

func (a *arguments) spec(it *item) { a.items = append(a.items, it) }

// keyIndex returns the number by which a script knows a key, adding it if it is new.
func (a *arguments) keyIndex(k string) int {
	for i := range a.keys {
		if a.keys[i] == k {
			return i + 1
		}
	}
	a.keys = append(a.keys, k)
	return len(a.keys)
}

// specs are the leading arguments of every script: see state.lua.
func (a *arguments) specs(now int64) []any {
	args := make([]any, 0, 1+3*len(a.items)+16)
	args = append(args, len(a.items))
	for _, it := range a.items {
		bounds := ""
		if it.params.Calendar() {
			bounds = boundaries(it.params, now)
		}
		for _, asked := range a.asked {
			bounds = asked + ";" + bounds
		}
		args = append(args, it.charge.Version, it.params.Spec, bounds)
	}
	return args
}

// boundaries writes the calendar of a limit and boundaries of its windows around now: "day Asia/Shanghai|0 1 2 3 4 5".
func boundaries(p *algo.Params, now int64) string {
	var b strings.Builder
	b.WriteString(calendarOf(p.Spec))
	for i, t := range p.Boundaries(now) {
		b.WriteByte("| "[min(i, 1)])
		b.WriteString(strconv.FormatInt(t, 10))
	}
	return b.String()
}

// calendarOf returns the unit and the zone of a calendar's spec: "f 10 0 day Asia/Shanghai".
func calendarOf(spec string) string {
	parts := strings.SplitN(spec, " ", 4)
	return parts[len(parts)-1]
}

// ask runs a script, and once more where it says that it did nothing and what it needs: the boundaries of a calendar
// around its time, or the functions for all kinds of limits.
func (s *Store) ask(ctx context.Context, set scriptSet, all bool, a *arguments, rest []any) (any, error) {
	for range len(a.items) + 2 {
		sc := set.buckets
		if all {
			sc = set.all
		}
		args := append(a.specs(s.cfg.Now().UnixMicro()), rest...)
		if s.inject != nil {
			args = append(args, s.inject())
		}
		reply, err := s.run(ctx, sc, a.keys, args)
		if err != nil {
			return nil, err
		}
		text, _ := reply.(string)
		if list, ok := reply.([]any); ok && len(list) == 1 {
			text, _ = list[0].(string)
		}
		switch {
		case text == "!":
			all = true
		case strings.HasPrefix(text, "?"):
			if err := a.answer(text[1:]); err != nil {
				return nil, err
			}
		default:
			return reply, nil
		}
	}
	return nil, fmt.Errorf("the script keeps asking: is the clock of the server jumping?")
}

// answer works out the boundaries that a script asked for: "TIME UNIT ZONE".
func (a *arguments) answer(text string) error {
	at, calendar, _ := strings.Cut(text, " ")
	unit, zone, _ := strings.Cut(calendar, " ")
	now, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("the script asked for %q", text)
	}
	l, err := tidegate.ParseLimit("1/" + unit + " tz " + zone)
	if err != nil {
		return err
	}
	p, err := algo.Compile(l)
	if err != nil {
		return err
	}
	if a.asked == nil {
		a.asked = map[string]string{}
	}
	a.asked[calendar] = boundaries(p, now)
	return nil
}
