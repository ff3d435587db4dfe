package redistest

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
)

const (
	clusterNodes = 3
	clusterSlots = 16384
)

// Cluster is a Redis cluster of three primaries without replicas that hold all slots. A node that is killed is
// missed after two seconds, whereupon the others answer CLUSTERDOWN.
type Cluster struct {
	Nodes []*Server
	Addrs []string // of the nodes, in their order
}

// StartCluster starts a cluster and waits until every node says that it is whole. The options go to every node, as
// in Start. A cluster has no password.
func StartCluster(tb testing.TB, opts ...string) *Cluster {
	tb.Helper()
	c := &Cluster{}
	for range clusterNodes {
		s := launch(tb, plan{
			port: freePortAndBus,
			args: func(s *Server, port int) ([]string, error) {
				return standalone(s, []string{
					"--port", strconv.Itoa(port), "--bind", "127.0.0.1",
					"--cluster-enabled", "yes",
					"--cluster-config-file", "nodes.conf",
					"--cluster-node-timeout", "2000",
					"--cluster-announce-ip", "127.0.0.1",
				}, opts), nil
			},
		})
		c.Nodes = append(c.Nodes, s)
		c.Addrs = append(c.Addrs, s.Addr)
	}
	if err := c.form(); err != nil {
		tb.Fatalf("redistest: form the cluster: %v", err)
	}
	c.Wait(tb)
	return c
}

// form deals out the slots in equal ranges and introduces the nodes to each other.
func (c *Cluster) form() error {
	for i, s := range c.Nodes {
		// An epoch of its own for each, or they would quarrel over it when they meet.
		if _, err := s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		// ADDSLOTSRANGE would be shorter, and needs Redis 7.
		add := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * clusterSlots / clusterNodes; slot < (i+1)*clusterSlots/clusterNodes; slot++ {
			add = append(add, strconv.Itoa(slot))
		}
		if _, err := s.Do(add...); err != nil {
			return err
		}
	}
	for _, s := range c.Nodes[1:] {
		host, port, err := net.SplitHostPort(s.Addr)
		if err != nil {
			return err
		}
		if _, err := c.Nodes[0].Do("CLUSTER", "MEET", host, port); err != nil {
			return err
		}
	}
	return nil
}

// Wait waits until every node knows all the others and says that the cluster is whole. A node needs a few seconds
// for it after a Restart.
func (c *Cluster) Wait(tb testing.TB) {
	tb.Helper()
	want := map[string]string{
		"cluster_state":       "ok",
		"cluster_slots_ok":    strconv.Itoa(clusterSlots),
		"cluster_known_nodes": strconv.Itoa(clusterNodes),
	}
	await(tb, "the cluster is whole", formTime, func() error {
		for _, s := range c.Nodes {
			reply, err := s.Do("CLUSTER", "INFO")
			if err != nil {
				return err
			}
			have := fields(reply)
			for name, value := range want {
				if have[name] != value {
					return fmt.Errorf("%s: %s is %q, not %q", s.Addr, name, have[name], value)
				}
			}
		}
		return nil
	})
}

// URL returns "redis+cluster://" and the addresses of all nodes, separated by commas.
func (c *Cluster) URL() string { return "redis+cluster://" + strings.Join(c.Addrs, ",") }
