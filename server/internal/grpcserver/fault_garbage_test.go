package grpcserver

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Whatever is sent to the port, nothing crashes, memory and goroutines come back, and clients are answered meanwhile.
func TestGarbage(t *testing.T) {
	sv := serve(t, &Config{MaxConnections: 300}, nil)
	c := dial(t, sv.addr, nil)
	if err := call(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	goroutines, memory := usage()

	random := make([]byte, 64<<10)
	_, _ = rand.Read(random)
	preface := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame := func(length int, kind, flags byte, stream uint32, payload []byte) []byte {
		return append([]byte{byte(length >> 16), byte(length >> 8), byte(length), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}, payload...)
	}
	settings := frame(0, 4, 0, 0, nil)
	open := slices.Concat(preface, settings)
	var conns []net.Conn
	for i := range 200 {
		conn, err := net.Dial("tcp", sv.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		var sent []byte
		switch i % 8 {
		case 0: // half open: nothing is ever said
		case 1:
			sent = random
		case 2:
			sent = []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		case 3:
			sent = slices.Concat(open, random)
		case 4: // a frame that is never finished
			sent = slices.Concat(open, frame(1<<20, 0, 0, 1, random[:100]))
		case 5: // headers that are none
			sent = slices.Concat(open, frame(1000, 1, 4, 1, random[:1000]))
		case 6: // headers that never end
			sent = slices.Concat(open, frame(100, 1, 0, 1, random[:100]))
		case 7:
			sent = preface[:10]
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = conn.Write(sent) // it may be closed already
	}
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := call(ctx, c); err != nil {
			t.Error(err)
		}
		cancel()
	}
	for i, conn := range conns {
		if i%2 == 0 {
			_ = conn.(*net.TCPConn).SetLinger(0) // goes away without a word
		}
		_, _ = io.CopyN(io.Discard, conn, 9)
		conn.Close()
	}
	until(t, func() bool { now, _ := usage(); return now <= goroutines+5 })
	if _, now := usage(); now > memory+32<<20 {
		t.Errorf("%d MiB of memory, %d before", now>>20, memory>>20)
	}
}

// A message that is too large is refused, and costs the connection nothing.
func TestOversize(t *testing.T) {
	sv := serve(t, nil, nil)
	c := dial(t, sv.addr, nil)
	large := wrapperspb.Bytes(make([]byte, maxMessage+1))
	for range 10 {
		if err := c.Invoke(t.Context(), echoMethod, large, &emptypb.Empty{}, grpc.MaxCallSendMsgSize(2*maxMessage)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%v", err)
		}
	}
	if err := call(t.Context(), c); err != nil {
		t.Error(err)
	}
	if err := c.Invoke(t.Context(), "/no.Such/Method", &emptypb.Empty{}, &emptypb.Empty{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("%v", err)
	}
}

func usage() (goroutines int, memory uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}
