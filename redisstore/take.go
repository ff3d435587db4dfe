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

// item is a charge as the scripts are told of it.
type item struct {
	charge *tidegate.Charge
	limit  *compiled
	tag    uint32
	home   uint32    // the tag of the key, from which those of shards are counted
	key    string    // empty for a limit without a bucket
	whole  *compiled // of a charge on one shard, whose limit is then that of the shard; see shards.go
	bucket *bucket   // of a take that waits, or is in flight
	use    *use      // in the batch
}

// Take implements [tidegate.Store]. Limits with a lease are decided here where tokens were taken ahead; all others, and
// all that are not enough, by the server.
func (s *Store) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if err := s.ready(ctx, "take"); err != nil {
		return dst, err
	}
	return s.leases.Take(ctx, charges, dst)
}

// takeStrict is Take without leases. Takes that are waiting leave together: see batch.go.
// In a cluster, buckets of different slots cannot be decided at one moment: see split.go.
func (s *Store) takeStrict(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	room := itemRooms.Get().(*itemRoom)
	defer room.leave()
	items := room.of(len(charges))
	if err := s.fill(items, charges); err != nil {
		return dst, err
	}
	n := len(dst)
	for range charges {
		dst = append(dst, tidegate.Decision{})
	}
	var err error
	if sharded(items) {
		err = s.takeShards(ctx, items, dst[n:])
	} else {
		err = s.takeOnce(ctx, items, dst[n:])
	}
	if err != nil {
		return dst[:n], err
	}
	return dst, nil
}

// takeOnce decides a take whose buckets are known.
func (s *Store) takeOnce(ctx context.Context, items []item, decisions []tidegate.Decision) error {
	if !s.cfg.NoDeniedCache && !s.denied.empty() && cacheable(items) {
		if d, ok := s.denied.refuse(&items[0], s.clock()); ok {
			decisions[0] = d
			return nil
		}
	}
	s.outdate(items)
	var err error
	switch keyed, together := s.slots(items); {
	case keyed == 0:
		takeStateless(items, decisions)
	case together:
		err = s.batches.take(ctx, items, decisions)
	default:
		bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		err = s.takeSplit(bounded, items, s.groups(items), decisions)
		cancel()
		if err != nil {
			err = s.failure(ctx, "take", err)
		}
	}
	s.forget(items, decisions)
	return err
}

// outdate drops what the server said of buckets that it is about to be asked to charge: it may find its clock set back,
// and then takes their time back too.
func (s *Store) outdate(items []item) {
	if s.cfg.NoDeniedCache || s.denied.empty() {
		return
	}
	for i := range items {
		if items[i].key != "" && items[i].charge.Cost > 0 {
			s.denied.drop(items[i].key)
		}
	}
}

// forget keeps the denied cache from refusing what a refund has made room for, and from telling of a bucket what it was
// before it was charged.
func (s *Store) forget(items []item, decisions []tidegate.Decision) {
	if s.cfg.NoDeniedCache {
		return
	}
	for i := range items {
		switch cost := items[i].charge.Cost; {
		case items[i].key == "":
		case cost < 0:
			s.denied.forget(items[i].key)
		case cost > 0 && decisions[i].Allowed:
			s.denied.drop(items[i].key)
		}
	}
}

// fill makes the items of the charges. Those of limits with shards have no bucket until place gives them one.
func (s *Store) fill(items []item, charges []tidegate.Charge) error {
	for i := range charges {
		c := &charges[i]
		if err := algo.CheckCharge(c); err != nil {
			return err
		}
		l, err := s.limits.of(c)
		if err != nil {
			return err
		}
		items[i] = item{charge: c, limit: l}
		if k := l.params.Kind; k == algo.None || k == algo.Unlimited {
			continue
		}
		items[i].home = s.tag(c)
		if l.shards != nil {
			items[i].whole = l
			continue
		}
		items[i].tag = items[i].home
	}
	switch {
	case len(items) > 1:
		s.nameBuckets(items)
	case len(items) == 1 && items[0].hasBucket():
		items[0].key = s.bucketKey(items[0].charge, items[0].tag, 0)
	}
	return nil
}

// hasBucket reports whether the item's limit has a bucket, which is not to be chosen among shards.
func (it *item) hasBucket() bool {
	return it.whole == nil && it.limit.params.Kind != algo.None && it.limit.params.Kind != algo.Unlimited
}

// slots returns how many items have a bucket, and whether these can be decided in one script.
func (s *Store) slots(items []item) (keyed int, together bool) {
	together = true
	tag := uint32(0)
	for i := range items {
		if items[i].key == "" {
			continue
		}
		if keyed > 0 && s.cluster && items[i].tag != tag {
			together = false
		}
		tag = items[i].tag
		keyed++
	}
	return keyed, together
}

// takeStateless decides charges of which none has a bucket.
func takeStateless(items []item, decisions []tidegate.Decision) {
	for i := range items {
		p := items[i].limit.params
		v := p.Check(nil, algo.Request{Cost: items[i].charge.Cost}, 0, algo.Window{})
		remaining, reset := p.Describe(nil, 0, algo.Window{})
		decisions[i] = decide(&items[i], v.OK, p.Capacity, remaining, v.Retry, reset, 0)
	}
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
	switch it.limit.params.Kind {
	case algo.Unlimited:
		d.Source, d.Limit, d.Remaining = tidegate.SourceUnlimited, tidegate.NoLimit, tidegate.NoLimit
	case algo.None:
		d.Limit, d.Remaining = 0, 0
	case algo.Bucket, algo.Fixed, algo.Sliding, algo.Log, algo.Permits:
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

// taking is a take as the take script is told of it.
type taking struct {
	items     []item
	dry       bool // evaluated only
	quick     bool // the run script or the several script may decide it
	hold      holding
	decisions []tidegate.Decision
	err       error

	times int       // how many takes it is, all alike; see alike.go
	ran   ran       // of what the run script decided, instead of decisions
	each  []*taking // of what other scripts decided of several alike, instead of decisions
}

// holding says what becomes of what a take charges: its id, and, unless all are permits, which remember their id
// themselves, where a record of it lies and how long it is kept after the start.
type holding struct {
	id     string
	record bool
	tag    uint32
	hold   int64 // µs
}

// holdingOf returns what the charges say. The record lies with the first of the buckets, where a settle looks for it.
func holdingOf(items []item) holding {
	h := holding{}
	first := true
	for i := range items {
		c := items[i].charge
		if items[i].key == "" {
			continue
		}
		if first {
			h.tag, first = items[i].tag, false
		}
		if c.ID != "" && c.Cost > 0 {
			h.id, h.hold = c.ID, min(int64(c.Hold/time.Microsecond), most)
			h.record = h.record || items[i].limit.params.Kind != algo.Permits
		}
	}
	return h
}

// takeTogether decides takes whose buckets share a slot in one script, each all or nothing and in order. An error that
// is one take's alone is left with it.
func (s *Store) takeTogether(ctx context.Context, takes []*taking) error {
	var a arguments
	rest := make([]any, 0, 1+10*len(takes))
	rest = append(rest, len(takes))
	all := false
	for _, t := range takes {
		record := 0
		if t.hold.record {
			record = a.keyIndex(s.recordKey(t.hold.tag, t.hold.id))
		}
		rest = append(rest, len(t.items), boolean(t.dry), record, t.hold.hold, t.hold.id)
		for i := range t.items {
			it := &t.items[i]
			c := it.charge
			index := 0
			if it.key != "" {
				index = a.keyIndex(it.key)
				all = all || it.limit.params.Kind != algo.Bucket
			}
			rest = append(rest, index, a.specIndex(it.limit), min(max(c.Cost, -most), most),
				min(int64(c.MaxWait/time.Microsecond), most), boolean(c.Shadow))
		}
	}
	sent, forgot := s.clock(), s.denied.forgot.Load()
	reply, err := s.ask(ctx, s.scripts.take, all, &a, rest)
	if err != nil {
		return err
	}
	list, _ := reply.([]any)
	if len(list) != len(takes) {
		return fmt.Errorf("the script answered %v", reply)
	}
	for i, t := range takes {
		text, _ := list[i].(string)
		t.err = decode(text, t.items, t.decisions)
		if t.err == nil && !t.dry && cacheable(t.items) && t.items[0].limit.tail == "" && !s.cfg.NoDeniedCache && !t.decisions[0].Allowed {
			d := t.decisions[0]
			s.denied.note(&t.items[0], refusal{sent: sent, told: s.clock(), decision: d}, d.RetryAfter, forgot)
		}
	}
	return nil
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// decode reads the text of a take: six numbers a charge.
func decode(text string, items []item, decisions []tidegate.Decision) error {
	if msg, ok := strings.CutPrefix(text, "-"); ok {
		return fmt.Errorf("%s", msg)
	}
	fields := strings.Fields(text)
	if len(fields) != 6*len(items) {
		return fmt.Errorf("the script answered %q", text)
	}
	for i := range items {
		var n [6]int64
		for j := range n {
			v, err := strconv.ParseInt(fields[6*i+j], 10, 64)
			if err != nil {
				return fmt.Errorf("the script answered %q", text)
			}
			n[j] = v
		}
		decisions[i] = decide(&items[i], n[0] == 1, n[1], n[2], n[3], n[4], n[5])
	}
	return nil
}
