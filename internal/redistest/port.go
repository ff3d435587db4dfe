package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// busOffset is what a cluster node adds to its port to get that of its bus. The nodes here keep to it rather than
// setting a port for the bus, which servers before Redis 7 cannot do.
const busOffset = 10000

// handedOut holds every port that this process has asked for, so that two servers starting at the same moment
// never get the same one. Between processes the kernel's choice of ports makes a clash rare, and the start is
// tried again.
var handedOut = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// freePort returns a TCP port of 127.0.0.1 on which nothing listened a moment ago.
func freePort() (int, error) { return reserve(0) }

// freePortAndBus is like freePort for a cluster node: the port of its bus is free too.
func freePortAndBus() (int, error) { return reserve(busOffset) }

func reserve(offset int) (int, error) {
	handedOut.Lock()
	defer handedOut.Unlock()
	for range 100 {
		port, err := probe(0)
		if err != nil {
			return 0, err
		}
		bus := port + offset
		if bus > 65535 || handedOut.ports[port] || handedOut.ports[bus] {
			continue
		}
		if offset != 0 {
			if _, err := probe(bus); err != nil {
				continue
			}
		}
		handedOut.ports[port], handedOut.ports[bus] = true, true
		return port, nil
	}
	return 0, errors.New("no free port found in 100 tries")
}

// probe listens on a port of 127.0.0.1 (0: any), closes it and returns it.
func probe(port int) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		return 0, err
	}
	if !ok {
		return 0, fmt.Errorf("a TCP listener at %v", l.Addr())
	}
	return addr.Port, nil
}
