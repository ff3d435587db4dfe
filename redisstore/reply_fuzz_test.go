package redisstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate-go/tidegate"
)

// answering is a connection to a server that gives every script the same answer.
func answering(answer func() string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			in := bufio.NewReader(server)
			for {
				args, err := readCommand(in)
				if err != nil {
					return
				}
				reply := "-ERR unknown command\r\n"
				if strings.HasPrefix(strings.ToLower(args[0]), "eval") {
					reply = answer()
				}
				if _, err := io.WriteString(server, reply); err != nil {
					return
				}
			}
		}()
		return client, nil
	}
}

// readCommand reads a command as clients send it.
func readCommand(in *bufio.Reader) ([]string, error) {
	count := func(kind byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != kind {
			return 0, fmt.Errorf("not a command: %q", line)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := count('*')
	if err != nil || n == 0 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	args := make([]string, n)
	for i := range args {
		size, err := count('$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

// FuzzReply: whatever a server answers to a script, each call ends soon, with a decision for each charge or an error.
func FuzzReply(f *testing.F) {
	for _, text := range []string{
		"1 10 9 0 100000 0", "0 10 0 100000 1000000 0", "1 10 9 0 100000 0 1 20 19 0 50 7", "1 10 9", "-ERR wrong", "-", "!", "?", "",
		"1 -1 -1 0 0 0", "0 0 0 -1 -1 0", "1 9223372036854775807 -9223372036854775808 9007199254740993 -2 1", "1 1e3 1 1 1 1",
		"?1796025600123456 day Europe/Vienna", "?4102444800000000 month UTC", "?9223372036854775807 day UTC", "?-9223372036854775808 year UTC",
		"?0 day", "?x day UTC", "?0 s UTC", "?0 day UTC fixed-window", "?0 day UTC burst 5", "?0 day ../../etc/passwd", "?0 day Local", "? ", "?0  ",
		"?1 h UTC", "?1 1000day UTC", "?1 day UTC sliding-window", "one 2 3 4 5 6", "99999999999999999999 1 1 1 1 1",
	} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Add("*0\r\n", true)
	limits := []*tidegate.Limit{
		{Rate: 10, Per: time.Second},
		{Rate: 10, Algorithm: tidegate.FixedWindow, Calendar: tidegate.CalendarDay, Zone: "Europe/Vienna"},
		{Rate: 10, Algorithm: tidegate.Concurrency},
		{Algorithm: tidegate.None},
	}
	var reply string
	client := redis.NewClient(&redis.Options{Dialer: answering(func() string { return reply }), PoolSize: 1})
	s, err := New(client, &Config{Timeout: 10 * time.Second})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		s.Close()
		client.Close()
	})
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, text string, list bool) {
		reply = fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
		if list {
			reply = "*1\r\n" + reply
		}
		if strings.HasPrefix(text, "*") { // an array of the fuzzer's own, cut short or not
			reply = "*2\r\n$1\r\na\r\n$1\r\nb\r\n"
		}
		start := time.Now()
		for n := range limits {
			charges := make([]tidegate.Charge, n+1)
			for i := range charges {
				charges[i] = tidegate.Charge{Rule: "r", Key: "k", Limit: limits[i], Cost: 1, ID: "id", Hold: time.Hour}
			}
			ds, err := s.Take(ctx, charges, nil)
			if err == nil && len(ds) != len(charges) {
				t.Errorf("%d decisions for %d charges", len(ds), len(charges))
			}
			if err != nil && !errors.Is(err, tidegate.ErrStore) {
				t.Errorf("the error is no failure of the store: %v", err)
			}
			for _, d := range ds {
				if d.RetryAfter < 0 || d.ResetAfter < 0 || d.Delay < 0 {
					t.Errorf("a negative time: %+v", d)
				}
			}
			for _, err := range []error{s.Settle(ctx, "id", charges, 1), s.Renew(ctx, "id", charges), s.Release(ctx, "id", charges)} {
				if err != nil && !errors.Is(err, tidegate.ErrStore) && !errors.Is(err, tidegate.ErrUnknownID) {
					t.Errorf("the error is neither a failure of the store nor an unknown ID: %v", err)
				}
			}
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
