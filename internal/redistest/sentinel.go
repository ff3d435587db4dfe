package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	sentinelMaster = "tidegate"
	sentinelCount  = 3
)

// SentinelSet is a primary and a replica watched by three sentinels, two of which make a quorum. A primary that is
// killed is missed after a second and replaced about a second later.
type SentinelSet struct {
	MasterName    string
	SentinelAddrs []string
	Sentinels     []*Server
	Nodes         []*Server // which of the two is the primary, Primary tells
}

// StartSentinel starts a set and waits until every sentinel knows the replica and the other sentinels.
func StartSentinel(tb testing.TB) *SentinelSet {
	tb.Helper()
	set := &SentinelSet{MasterName: sentinelMaster}
	primary := startNode(tb, "")
	replica := startNode(tb, primary.Addr)
	set.Nodes = []*Server{primary, replica}
	// A sentinel asks a primary for its replicas at once, and then not for ten seconds.
	inStep(tb, primary, replica)
	for range sentinelCount {
		s := startSentinel(tb, primary.Addr)
		set.Sentinels = append(set.Sentinels, s)
		set.SentinelAddrs = append(set.SentinelAddrs, s.Addr)
	}
	await(tb, "the sentinels know each other", formTime, func() error {
		for _, s := range set.Sentinels {
			if err := set.whole(s); err != nil {
				return fmt.Errorf("sentinel %s: %w", s.Addr, err)
			}
		}
		return nil
	})
	return set
}

// inStep waits until the replica has what the primary has. The replica's word that its link is up is not enough: the
// primary holds back the stream until the first acknowledgement.
func inStep(tb testing.TB, primary, replica *Server) {
	tb.Helper()
	await(tb, replica.Addr+" is in step with "+primary.Addr, formTime, func() error {
		// A message moves the offset and leaves no data.
		if _, err := primary.Do("PUBLISH", "tidegate:redistest", "in step"); err != nil {
			return err
		}
		reply, err := primary.Do("INFO", "replication")
		if err != nil {
			return err
		}
		want := fields(reply)["master_repl_offset"]
		return poll(time.Second, func() error {
			reply, err := replica.Do("INFO", "replication")
			if err != nil {
				return err
			}
			have := fields(reply)
			if have["master_link_status"] != "up" || !reached(have["slave_repl_offset"], want) {
				return fmt.Errorf("its link is %q, its offset %q of %q",
					have["master_link_status"], have["slave_repl_offset"], want)
			}
			return nil
		})
	})
}

func reached(have, want string) bool {
	h, err := strconv.Atoi(have)
	w, err2 := strconv.Atoi(want)
	return err == nil && err2 == nil && w > 0 && h >= w
}

// startNode starts a server that keeps its options in a file, so that sentinels can write a change of role there
// and it outlives a restart.
func startNode(tb testing.TB, primary string) *Server {
	tb.Helper()
	return launch(tb, plan{
		port: freePort,
		args: func(s *Server, port int) ([]string, error) {
			lines := []string{
				"bind 127.0.0.1", "port " + strconv.Itoa(port), "dir " + strconv.Quote(s.dir),
				`save ""`, "appendonly no",
				"repl-diskless-sync-delay 0", // five seconds otherwise
			}
			if primary != "" {
				lines = append(lines, "replicaof "+spaced(primary))
			}
			return configFile(s, lines)
		},
	})
}

func startSentinel(tb testing.TB, primary string) *Server {
	tb.Helper()
	s := launch(tb, plan{
		port: freePort,
		args: func(s *Server, port int) ([]string, error) {
			args, err := configFile(s, []string{
				"bind 127.0.0.1", "port " + strconv.Itoa(port), "dir " + strconv.Quote(s.dir),
				"sentinel monitor " + sentinelMaster + " " + spaced(primary) + " 2",
				"sentinel down-after-milliseconds " + sentinelMaster + " 1000",
				"sentinel failover-timeout " + sentinelMaster + " 3000",
			})
			return append(args, "--sentinel"), err
		},
	})
	// A promoted node closes the sentinels' connections, and a sentinel opens one again only after a ping period. So
	// the time after which a node is missed must be several of these, or the sentinels take a node that was just
	// promoted for dead. They also spread news faster than every two seconds here, and do not stop working for half
	// a minute when their machine seems to have stood still for two. A server before Redis 7 cannot be told all
	// that: there the time is longer.
	_, err := s.Do("SENTINEL", "DEBUG", "PING-PERIOD", "250", "INFO-PERIOD", "1000", "ASK-PERIOD", "250",
		"PUBLISH-PERIOD", "250", "TILT-TRIGGER", "20000")
	if _, old := errors.AsType[ReplyError](err); old {
		_, err = s.Do("SENTINEL", "SET", sentinelMaster, "down-after-milliseconds", "4000")
	}
	if err != nil {
		tb.Fatalf("redistest: sentinel %s: %v", s.Addr, err)
	}
	return s
}

func spaced(addr string) string { return strings.Replace(addr, ":", " ", 1) }

func configFile(s *Server, lines []string) ([]string, error) {
	path := filepath.Join(s.dir, "conf")
	return []string{path}, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// whole reports an error unless a sentinel is ready for a failover.
func (set *SentinelSet) whole(s *Server) error {
	if _, err := s.Do("SENTINEL", "CKQUORUM", set.MasterName); err != nil {
		return err
	}
	reply, err := s.Do("SENTINEL", "MASTER", set.MasterName)
	if err != nil {
		return err
	}
	if n := pairs(reply)["num-other-sentinels"]; n != strconv.Itoa(sentinelCount-1) {
		return fmt.Errorf("%s other sentinels", n)
	}
	reply, err = s.Do("SENTINEL", "REPLICAS", set.MasterName)
	if err != nil {
		return err
	}
	replicas, _ := reply.([]any)
	if len(replicas) != 1 {
		return fmt.Errorf("%d replicas", len(replicas))
	}
	r := pairs(replicas[0])
	if r["flags"] != "slave" || r["master-link-status"] != "ok" {
		return fmt.Errorf("replica is %s, its link %s", r["flags"], r["master-link-status"])
	}
	return nil
}

// Primary returns the node that the sentinels agree on, when it also says so itself. It waits for that.
func (set *SentinelSet) Primary(tb testing.TB) *Server {
	tb.Helper()
	return set.waitPrimary(tb, nil)
}

// WaitFailover waits until the sentinels agree on a primary other than old, and returns it.
func (set *SentinelSet) WaitFailover(tb testing.TB, old *Server) *Server {
	tb.Helper()
	return set.waitPrimary(tb, old)
}

func (set *SentinelSet) waitPrimary(tb testing.TB, old *Server) (primary *Server) {
	tb.Helper()
	await(tb, "the sentinels agree on a primary", formTime, func() (err error) {
		if primary, err = set.agreed(); err != nil {
			return err
		}
		if primary == old {
			return fmt.Errorf("it is still %s", old.Addr)
		}
		reply, err := primary.Do("ROLE")
		if err != nil {
			return err
		}
		if role, _ := reply.([]any); len(role) == 0 || role[0] != "master" {
			return fmt.Errorf("%s says of itself %v", primary.Addr, reply)
		}
		return nil
	})
	return primary
}

// agreed returns the node that every sentinel that runs takes for the primary.
func (set *SentinelSet) agreed() (*Server, error) {
	addr := ""
	for _, s := range set.Sentinels {
		if s.process().ended() {
			continue
		}
		reply, err := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", set.MasterName)
		if err != nil {
			return nil, err
		}
		pair, _ := reply.([]any)
		if len(pair) != 2 { // host and port
			return nil, fmt.Errorf("%s answers %v", s.Addr, reply)
		}
		said := net.JoinHostPort(fmt.Sprint(pair[0]), fmt.Sprint(pair[1]))
		if addr != "" && said != addr {
			return nil, fmt.Errorf("one says %s, another %s", addr, said)
		}
		addr = said
	}
	for _, n := range set.Nodes {
		if n.Addr == addr {
			return n, nil
		}
	}
	return nil, fmt.Errorf("%q is no node of this set", addr)
}

// WaitReplicated waits until the replica has everything that the primary has, so that a failover loses nothing.
func (set *SentinelSet) WaitReplicated(tb testing.TB) {
	tb.Helper()
	primary := set.Primary(tb)
	for _, n := range set.Nodes {
		if n != primary {
			inStep(tb, primary, n)
		}
	}
}

// Failover makes the sentinels replace a primary that is well, as an operator would, and returns the one that it
// was without waiting: WaitFailover does.
func (set *SentinelSet) Failover(tb testing.TB) (old *Server) {
	tb.Helper()
	old = set.Primary(tb)
	await(tb, "start a failover", formTime, func() error {
		// INPROG or NOGOODSLAVE for a while when the last failover was a moment ago.
		_, err := set.Sentinels[0].Do("SENTINEL", "FAILOVER", set.MasterName)
		return err
	})
	return old
}

// KillPrimary kills the primary and returns it without waiting for its successor: WaitFailover does. After a
// Restart the sentinels make a replica of it.
func (set *SentinelSet) KillPrimary(tb testing.TB) (old *Server) {
	tb.Helper()
	old = set.Primary(tb)
	old.Kill()
	return old
}
