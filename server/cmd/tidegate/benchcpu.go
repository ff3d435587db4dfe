package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// redisTap is a hook of the store's client that changes nothing: through it this command asks the same servers, with the
// same credentials, what the store has no word for.
type redisTap struct {
	once    sync.Once
	process redis.ProcessHook // nil where the store is not in Redis
	cluster bool
}

func isCluster(name string) bool {
	scheme, _, _ := strings.Cut(name, "://")
	return strings.HasSuffix(scheme, "+cluster")
}

// DialHook leaves it as it is.
func (*redisTap) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook leaves it as it is, and remembers the first, which is the client's own; those of its connections come later.
func (t *redisTap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	t.once.Do(func() { t.process = next })
	return next
}

// ProcessPipelineHook leaves it as it is.
func (*redisTap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (t *redisTap) ask(ctx context.Context, args ...any) (string, error) {
	cmd := redis.NewStringCmd(ctx, args...)
	_ = t.process(ctx, cmd) // which leaves the error with the command
	return cmd.Result()
}

// redisCPU is what each server has spent so far, in seconds, by its run id; nil where that is not known.
type redisCPU map[string]float64

// cpu asks all servers that hold buckets; of a store that is not in Redis that is none.
func (t *redisTap) cpu() (spent redisCPU, err error) {
	if t.process == nil {
		return spent, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*storePatience)
	defer cancel()
	spent = redisCPU{}
	if !t.cluster {
		info, err := t.ask(ctx, "info")
		if err != nil {
			return nil, err
		}
		return spent, spent.add(info)
	}
	state, err := t.ask(ctx, "cluster", "info")
	if err != nil {
		return nil, err
	}
	size, err := strconv.Atoi(infoField(state, "cluster_size"))
	if err != nil {
		return nil, errors.New("CLUSTER INFO does not tell the size of the cluster")
	}
	// A command goes to the node that holds its key, and INFO has none; a script has, and a few of them meet all nodes.
	for key := 0; len(spent) < size; key++ {
		if key == 1000 {
			return nil, fmt.Errorf("of %d nodes %d answered INFO", size, len(spent))
		}
		info, err := t.ask(ctx, "eval", `return redis.call("info")`, 1, benchRule+strconv.Itoa(key))
		if err == nil {
			err = spent.add(info)
		}
		if err != nil {
			return nil, err
		}
	}
	return spent, nil
}

// add reads the answer of a server to INFO.
func (c redisCPU) add(info string) error {
	user, err := strconv.ParseFloat(infoField(info, "used_cpu_user"), 64)
	system, err2 := strconv.ParseFloat(infoField(info, "used_cpu_sys"), 64)
	if err != nil || err2 != nil {
		return errors.New("INFO does not tell used_cpu_user and used_cpu_sys")
	}
	c[infoField(info, "run_id")] = user + system
	return nil
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// until returns what was spent since, in seconds: nil if that is not known, or was not by the same servers.
func (c redisCPU) until(t *redisTap) *decimal {
	if c == nil {
		return nil
	}
	now, err := t.cpu()
	if err != nil || len(now) != len(c) {
		return nil
	}
	sum := 0.0
	for id := range maps.Keys(c) {
		after, ok := now[id]
		if !ok {
			return nil
		}
		sum += after - c[id]
	}
	return new(decimal(math.Round(sum*1e6) / 1e6))
}

// cpuText says what Redis spent, in all and for a decision.
func cpuText(spent *decimal, decisions int64) string {
	if spent == nil {
		return "not known"
	}
	text := briefly(spent.seconds()).String()
	if decisions > 0 {
		text += fmt.Sprintf(", %v a decision", briefly((*spent / decimal(decisions)).seconds()))
	}
	return text
}
