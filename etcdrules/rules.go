package etcdrules

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/tidegate-go/tidegate/rules/source"
)

// Config says how [Rules] are reached. The zero Config, like a nil one, is the documented default.
type Config struct {
	// Timeout bounds a call, where its context does not end before. Default: 2 s.
	Timeout time.Duration
	// TLS is for etcds:// URLs. Default: the system's authorities, and no certificate of our own.
	TLS *tls.Config
	// Now tells when a push is made, which becomes the version of the rules: etcd itself knows no times.
	// Default: time.Now.
	Now func() time.Time
}

// Rules are rules under a key of etcd: [source.Source] and [source.Editor] in one. Create them with [Open] or [New] and
// close them when done.
//
// The version of rules that were pushed is the time at which they were. Rules that were written by other programs have no
// time: their version is that of the last push plus the number of revisions since, so that it grows, and is the same for all.
// What is known of the last push lies beside the rules. Where it was deleted, it is looked for in etcd's history; once that is
// compacted, the version is the number of the revision alone, far below those before, until the rules are pushed again.
type Rules struct {
	client *clientv3.Client
	own    bool // the client is ours to close
	key    string
	origin string
	cfg    Config
	lost   lost
}

var (
	_ source.Source = (*Rules)(nil)
	_ source.Editor = (*Rules)(nil)
)

// Open returns the rules that the URL names. It does not connect yet. A nil config is the default.
//
//	etcd://[user:password@]host:port[,host:port…]/key     etcds: with TLS
//
// What follows the first / is the key, as it is: tidegate/rules has none in front, etcd://host//rules names /rules.
func Open(url string, cfg *Config) (*Rules, error) {
	l, err := parse(url)
	if err != nil {
		return nil, err
	}
	r, err := newRules(l.key, cfg)
	if err != nil {
		return nil, err
	}
	c := clientv3.Config{
		Endpoints: l.endpoints,
		Username:  l.user,
		Password:  l.password,
		// A server that is away is noticed although nothing is sent, and looked for at least once a second.
		DialTimeout:          r.cfg.Timeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		})},
		Logger: zap.NewNop(), // errors are returned
	}
	if l.tls {
		if c.TLS = r.cfg.TLS; c.TLS == nil {
			c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	if r.client, err = clientv3.New(c); err != nil {
		return nil, fmt.Errorf("etcdrules: %w", err)
	}
	r.own = true
	r.origin = "etcd " + strings.Join(l.endpoints, ",") + ", " + l.key
	return r, nil
}

// New returns the rules under a key of a client, which stays the caller's to close. A nil config is the default.
func New(client *clientv3.Client, key string, cfg *Config) (*Rules, error) {
	if client == nil {
		return nil, errors.New("etcdrules: the client is nil")
	}
	if key == "" {
		return nil, errors.New("etcdrules: the key is empty: name one, such as tidegate/rules")
	}
	r, err := newRules(key, cfg)
	if err != nil {
		return nil, err
	}
	r.client, r.origin = client, "etcd, "+key
	return r, nil
}

func newRules(key string, cfg *Config) (*Rules, error) {
	r := &Rules{key: key}
	if cfg != nil {
		r.cfg = *cfg
	}
	if r.cfg.Timeout < 0 {
		return nil, fmt.Errorf("etcdrules: a timeout of %v: leave it 0 for the default of 2s", r.cfg.Timeout)
	}
	if r.cfg.Timeout == 0 {
		r.cfg.Timeout = 2 * time.Second
	}
	if r.cfg.Now == nil {
		r.cfg.Now = time.Now
	}
	return r, nil
}

// Close ends the connections that Open made.
func (r *Rules) Close() error {
	if !r.own {
		return nil
	}
	return r.client.Close()
}

// Name is "etcd".
func (*Rules) Name() string { return "etcd" }

// Origin names the servers and the key.
func (r *Rules) Origin() string { return r.origin }

// info is what lies beside the rules.
type info struct {
	Version int64  `json:"version"`
	By      string `json:"by,omitempty"`
	// Former is the version that was replaced, 0 for none; nil where it is not known.
	Former *int64 `json:"former,omitempty"`
}

// at is a document, and the revision at which it was written; 0 for none.
type at struct {
	doc      source.Document
	revision int64
	last     int64 // the highest version so far, also where the rules are gone
	former   int64 // the version that it replaced, -1 where that is not known
	store    int64 // the revision of etcd when it was read
}

func (r *Rules) infoKey() string { return r.key + ".info" }

// Pull implements [source.Editor].
func (r *Rules) Pull(ctx context.Context) (source.Document, error) {
	now, err := r.get(ctx)
	if err == nil && now.revision == 0 {
		err = source.ErrNone
	}
	return now.doc, err
}

// get reads the rules and what lies beside them at one moment.
func (r *Rules) get(ctx context.Context) (at, error) {
	bounded, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	resp, err := r.client.Txn(bounded).Then(clientv3.OpGet(r.key), clientv3.OpGet(r.infoKey())).Commit()
	if err != nil {
		return at{}, r.failure(ctx, err)
	}
	now := at{store: resp.Header.GetRevision(), former: -1}
	in, pushed := readInfo(resp.Responses[1].GetResponseRange().GetKvs())
	kvs := resp.Responses[0].GetResponseRange().GetKvs()
	if len(kvs) > 0 && pushed == 0 {
		if in, pushed, err = r.lostInfo(bounded, kvs[0]); err != nil {
			return at{}, r.failure(ctx, err)
		}
	}
	now.last = in.Version
	if len(kvs) == 0 {
		return now, nil
	}
	now.revision = kvs[0].GetModRevision()
	now.last += max(now.revision-pushed, 0)
	now.doc = source.Document{Text: kvs[0].GetValue(), Version: now.last, Origin: r.origin}
	if now.revision == pushed {
		now.doc.By = in.By
		if in.Former != nil {
			now.former = *in.Former
		}
	}
	return now, nil
}

// Push implements [source.Editor], by one transaction.
func (r *Rules) Push(ctx context.Context, text []byte, by string, expect int64) (int64, error) {
	if err := source.CheckPush(text, by, expect); err != nil {
		return 0, fmt.Errorf("etcdrules: %w", err)
	}
	const tries = 10 // for one who expects nothing, while others push
	for range tries {
		now, err := r.get(ctx)
		switch {
		case err != nil:
			return 0, err
		case now.revision != 0 && string(now.doc.Text) == string(text) &&
			(expect == source.AnyVersion || expect == now.doc.Version || expect == now.former):
			return now.doc.Version, nil
		case expect != source.AnyVersion && expect != now.doc.Version:
			return 0, &source.ConflictError{Expected: expect, Current: now.doc.Version}
		}
		version := source.NextVersion(r.cfg.Now().UnixMicro(), now.last)
		if done, err := r.put(ctx, text, info{version, by, &now.doc.Version}, now.revision); err != nil || done {
			return version, err
		}
	}
	return 0, errors.New("etcdrules: others push all the time: push with the version that you expect")
}

// put writes the rules if they are still those of the revision, and reports whether they were.
func (r *Rules) put(ctx context.Context, text []byte, in info, revision int64) (bool, error) {
	beside, err := json.Marshal(in)
	if err != nil {
		return false, fmt.Errorf("etcdrules: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	resp, err := r.client.Txn(bounded).
		If(clientv3.Compare(clientv3.ModRevision(r.key), "=", revision)).
		Then(clientv3.OpPut(r.key, string(text)), clientv3.OpPut(r.infoKey(), string(beside))).
		Commit()
	if err != nil {
		return false, r.failure(ctx, err)
	}
	return resp.Succeeded, nil
}

// failure tells an error of etcd from the going away of the caller.
func (r *Rules) failure(caller context.Context, err error) error {
	if caller.Err() != nil {
		return caller.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("etcdrules: no answer from %s within %v: %w", strings.Join(r.client.Endpoints(), ","), r.cfg.Timeout, err)
	}
	return fmt.Errorf("etcdrules: %w", err)
}
