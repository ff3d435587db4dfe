package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
	"github.com/tidegate-go/tidegate/internal/key"
)

var _ tidegate.Registry = (*Store)(nil)

// tableTag is where a cluster keeps the table of the replicas: no key's tag, but any is as good as another.
const tableTag = 0x7ab1

// tableKeys are the keys of the table, which all lie in one slot: no bucket's text begins with %=.
var tableKeys = [...]string{"%=replicas", "%=marker", "%=total0", "%=total1", "%=own0", "%=own1"}

// Beat implements [tidegate.Registry], by one script.
func (s *Store) Beat(ctx context.Context, b tidegate.Beat) (tidegate.Table, error) {
	if b.ID == "" || len(b.ID) > algo.MaxID {
		return tidegate.Table{}, fmt.Errorf("redisstore: a replica's ID of %d bytes: 1 to %d", len(b.ID), algo.MaxID)
	}
	bounded, cancel, err := s.begin(ctx, "beat")
	if err != nil {
		return tidegate.Table{}, err
	}
	defer cancel()
	args := scriptCall(nil, len(tableKeys), scriptArgs+len(tableKeys)+6+2*len(b.Admitted))
	prefix := string(s.appendPrefix(nil, tableTag))
	for _, k := range tableKeys {
		args = append(args, prefix+k)
	}
	var own strings.Builder
	var fields []any
	for rule, n := range b.Admitted {
		f, n := s.rules.field(s, rule), strconv.FormatInt(min(max(n, 0), most), 10)
		fields = append(fields, f, n)
		own.WriteString(f + " " + n + " ")
	}
	args = append(args, b.ID, b.Marker, strconv.FormatInt(b.Since, 10), boolean(b.Leave), own.String())
	reply, err := s.run(bounded, s.scripts.beat, s.timed(append(args, fields...)))
	if err != nil {
		return tidegate.Table{}, s.failure(ctx, "beat", err)
	}
	t, err := s.readTable(reply)
	if err != nil {
		return tidegate.Table{}, s.failure(ctx, "beat", fmt.Errorf("the script answered %v: %w", reply, err))
	}
	return t, nil
}

var errTable = errors.New("which is no table")

// readTable reads what the script returns.
func (s *Store) readTable(reply any) (t tidegate.Table, err error) {
	list, _ := reply.([]any)
	if len(list) != 8 {
		return t, errTable
	}
	number := func(i int) (n int64) {
		text, _ := list[i].(string)
		n, e := strconv.ParseInt(text, 10, 64)
		if e != nil {
			err = errTable
		}
		return n
	}
	t.Now, t.Replicas, t.Reported, t.Counted, t.Beaten = number(0), number(2), number(3), number(4) == 1, number(5)
	t.Second = t.Now/1_000_000 - 1
	t.Marker, _ = list[1].(string)
	var own string
	own, t.Present = list[6].(string)
	t.Own, t.Total = map[string]int64{}, map[string]int64{}
	words := strings.Fields(own)
	for i := 0; i+1 < len(words); i += 2 {
		s.rules.put(t.Own, words[i], words[i+1])
	}
	totals, ok := list[7].([]any)
	if !ok {
		return t, errTable
	}
	for i := 0; i+1 < len(totals); i += 2 {
		name, _ := totals[i].(string)
		n, _ := totals[i+1].(string)
		if f, ok := strings.CutPrefix(name, ":"); ok {
			s.rules.put(t.Total, f, n)
		}
	}
	return t, err
}

// ruleNames remembers the fields by which the table names rules, which may hide what they are called.
type ruleNames struct {
	mu     sync.Mutex
	fields map[string]string // of a rule
	rules  map[string]string // of a field
}

// maxRuleNames bounds them for a program that makes up rules all day; they start anew beyond.
const maxRuleNames = 10_000

// field returns the field of a rule: its escaped text, or an HMAC under the secret.
func (r *ruleNames) field(s *Store, rule string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.fields[rule]; ok {
		return f
	}
	if len(r.fields) >= maxRuleNames || r.fields == nil {
		r.fields, r.rules = map[string]string{}, map[string]string{}
	}
	var b []byte
	if s.cfg.KeySecret != nil {
		b = key.AppendSecret(nil, s.cfg.KeySecret, rule, "")
	} else {
		b = key.AppendBucket(nil, rule, "")
	}
	rule = strings.Clone(rule)
	r.fields[rule], r.rules[string(b)] = string(b), rule
	return string(b)
}

// put sets the count of the rule that a field is of, if it is known or can be read from it.
func (r *ruleNames) put(counts map[string]int64, field, count string) {
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		n = math.MaxInt64 // the sum of more than can be
	}
	r.mu.Lock()
	rule, ok := r.rules[field]
	r.mu.Unlock()
	if !ok {
		if rule, ok = key.Rule(field); !ok {
			return
		}
	}
	counts[rule] = n
}
