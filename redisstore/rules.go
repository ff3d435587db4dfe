package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate/rules/source"
)

// rulesTag is where a cluster keeps the rules: no key's tag, but any is as good as another.
const rulesTag = 0x5e1f

// rulesKeys are the keys of the rules and of those before them, which lie in one slot: no bucket's text begins with %=.
var rulesKeys = [...]string{"%=rules", "%=rules.former"}

// MaxRulesHistory is how many former versions of the rules are kept.
const MaxRulesHistory = 20

// rulesPoll is how often a replica asks for the version of the rules: with a fifth by chance, and an answer that takes its
// time, each has a change within a second.
const rulesPoll = 300 * time.Millisecond

// Rules are the rules that the replicas share, kept beside the buckets: [source.Source] and [source.Editor] in one.
// A change is one script, so that of two who replace the same version one is told to look again. Their version is the time
// of the change by the server's clock. They are kept as they are, under a secret too, and never expire.
type Rules struct {
	store *Store
}

var (
	_ source.Source = (*Rules)(nil)
	_ source.Editor = (*Rules)(nil)
)

// Rules returns the rules that are kept beside the buckets. It does not ask the server yet.
func (s *Store) Rules() *Rules { return &Rules{store: s} }

// Name is "redis".
func (r *Rules) Name() string { return "redis" }

// Watch implements [source.Source]: it asks for the version several times a second, and for the text when that is another.
// So a replica that was cut off has the rules as soon as it reaches the server again.
func (r *Rules) Watch(ctx context.Context, deliver func(source.Document, error)) error {
	var last int64 // each Watch begins with the rules as they are
	return source.Poll(ctx, rulesPoll, rulesPoll, func(ctx context.Context) (source.Document, error) {
		version, err := r.version(ctx)
		if err != nil {
			return source.Document{}, err
		}
		if version == last {
			return source.Document{}, source.ErrUnchanged
		}
		doc, err := r.Pull(ctx)
		if err == nil {
			last = doc.Version
		}
		return doc, err
	}, deliver)
}

// version returns the version of the rules, or [source.ErrNone].
func (r *Rules) version(ctx context.Context) (int64, error) {
	s := r.store
	bounded, cancel, err := s.begin(ctx, "rules")
	if err != nil {
		return 0, err
	}
	defer cancel()
	text, err := s.client.HGet(bounded, r.keys()[0], "version").Result()
	if errors.Is(err, redis.Nil) {
		return 0, source.ErrNone
	}
	if err != nil {
		return 0, s.failure(ctx, "rules", err)
	}
	version, err := readVersion(text)
	if err != nil {
		return 0, s.failure(ctx, "rules", err)
	}
	return version, nil
}

// Pull implements [source.Editor].
func (r *Rules) Pull(ctx context.Context) (source.Document, error) {
	s := r.store
	bounded, cancel, err := s.begin(ctx, "pull rules")
	if err != nil {
		return source.Document{}, err
	}
	defer cancel()
	fields, err := s.client.HGetAll(bounded, r.keys()[0]).Result()
	if err != nil {
		return source.Document{}, s.failure(ctx, "pull rules", err)
	}
	if len(fields) == 0 {
		return source.Document{}, source.ErrNone
	}
	version, err := readVersion(fields["version"])
	if err != nil {
		return source.Document{}, s.failure(ctx, "pull rules", err)
	}
	return source.Document{Text: []byte(fields["text"]), Version: version, Origin: r.origin(), By: fields["by"]}, nil
}

// Push implements [source.Editor], by one script.
func (r *Rules) Push(ctx context.Context, text []byte, by string, expect int64) (int64, error) {
	s := r.store
	if err := source.CheckPush(text, by, expect); err != nil {
		return 0, fmt.Errorf("redisstore: %w", err)
	}
	bounded, cancel, err := s.begin(ctx, "push rules")
	if err != nil {
		return 0, err
	}
	defer cancel()
	args := scriptCall(nil, len(rulesKeys), scriptArgs+len(rulesKeys)+5)
	for _, k := range r.keys() {
		args = append(args, k)
	}
	args = append(args, text, by, strconv.FormatInt(expect, 10), strconv.Itoa(-MaxRulesHistory))
	reply, err := s.run(bounded, s.scripts.rules, s.timed(args))
	if err != nil {
		return 0, s.failure(ctx, "push rules", err)
	}
	list, _ := reply.([]any)
	if len(list) != 2 {
		return 0, s.failure(ctx, "push rules", fmt.Errorf("the script answered %v", reply))
	}
	answer, _ := list[1].(string)
	version, err := strconv.ParseInt(answer, 10, 64)
	switch {
	case err != nil:
		return 0, s.failure(ctx, "push rules", fmt.Errorf("the script answered %v", reply))
	case list[0] != "1":
		return 0, &source.ConflictError{Expected: expect, Current: version}
	}
	return version, nil
}

// History returns what the rules were before, the latest first, at most [MaxRulesHistory] of them: to compare with, and to
// push again.
func (r *Rules) History(ctx context.Context) ([]source.Document, error) {
	s := r.store
	bounded, cancel, err := s.begin(ctx, "rules history")
	if err != nil {
		return nil, err
	}
	defer cancel()
	entries, err := s.client.LRange(bounded, r.keys()[1], 0, -1).Result()
	if err != nil {
		return nil, s.failure(ctx, "rules history", err)
	}
	docs := make([]source.Document, 0, len(entries))
	for _, entry := range slices.Backward(entries) {
		parts := strings.SplitN(entry, "\n", 3)
		if len(parts) != 3 {
			return nil, s.failure(ctx, "rules history", errRules)
		}
		version, err := readVersion(parts[0])
		if err != nil {
			return nil, s.failure(ctx, "rules history", err)
		}
		docs = append(docs, source.Document{Text: []byte(parts[2]), Version: version, Origin: r.origin(), By: parts[1]})
	}
	return docs, nil
}

// keys returns the keys as the server has them.
func (r *Rules) keys() (keys [len(rulesKeys)]string) {
	prefix := string(r.store.appendPrefix(nil, rulesTag))
	for i, k := range rulesKeys {
		keys[i] = prefix + k
	}
	return keys
}

// origin names the server and the key.
func (r *Rules) origin() string {
	at := "redis"
	if c, ok := r.store.client.(*redis.Client); ok {
		at += " " + c.Options().Addr
	}
	return at + ", " + r.keys()[0]
}

var errRules = errors.New("what is under the key of the rules was not written by this program")

func readVersion(text string) (int64, error) {
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version <= 0 {
		return 0, errRules
	}
	return version, nil
}
