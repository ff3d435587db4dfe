package etcdrules

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lookBack is how many writes of the rules by other programs are gone back by, to find what lay beside them before it was lost.
const lookBack = 10

// lost is what was found of a push whose info is gone, so that it is looked for once for each change of the rules.
type lost struct {
	mu       sync.Mutex
	revision int64 // of the rules that it was looked for; 0: not yet
	in       info
	pushed   int64
}

// readInfo reads what lies beside the rules, and the revision of the push that wrote it: 0 where there is nothing to be read.
func readInfo(kvs []*mvccpb.KeyValue) (in info, pushed int64) {
	if len(kvs) == 0 || json.Unmarshal(kvs[0].GetValue(), &in) != nil || in.Version <= 0 {
		return info{}, 0
	}
	return in, kvs[0].GetModRevision()
}

// lostInfo looks for what lay beside the rules in the history of etcd, where somebody has deleted or overwritten it: from when the
// rules were written last, and back from write to write. Without it the versions would begin anew, from the revisions of etcd,
// which are far below those that replicas and buckets have seen. A pushed of 0 is that nothing is known: rules were never pushed
// here, or etcd has forgotten.
func (r *Rules) lostInfo(ctx context.Context, rules *mvccpb.KeyValue) (in info, pushed int64, err error) {
	l := &r.lost
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.revision == rules.GetModRevision() {
		return l.in, l.pushed, nil
	}
	at := rules.GetModRevision()
	for range lookBack {
		beside, err := r.client.Get(ctx, r.infoKey(), clientv3.WithRev(at))
		if err == nil {
			in, pushed = readInfo(beside.Kvs)
		}
		if err == nil && pushed != 0 {
			break
		}
		var before *clientv3.GetResponse
		if err == nil {
			before, err = r.client.Get(ctx, r.key, clientv3.WithRev(at-1))
		}
		if errors.Is(err, rpctypes.ErrCompacted) || err == nil && len(before.Kvs) == 0 {
			break
		}
		if err != nil {
			return info{}, 0, err
		}
		at = before.Kvs[0].GetModRevision()
	}
	l.revision, l.in, l.pushed = rules.GetModRevision(), in, pushed
	return in, pushed, nil
}
