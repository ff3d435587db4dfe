package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ReplyError is an error that the server answered, such as "NOAUTH Authentication required.".
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// conn is one connection that speaks RESP2.
type conn struct {
	net.Conn
	r *bufio.Reader
}

// dial connects, and sends AUTH when there is a password. The context's deadline holds for the whole connection.
func dial(ctx context.Context, network, addr, password string) (*conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, r: bufio.NewReader(nc)}
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if password != "" {
		if _, err := c.do("AUTH", password); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// do sends one command and reads its reply.
func (c *conn) do(args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return nil, err
	}
	v, err := readReply(c.r)
	if err != nil {
		return nil, err
	}
	if e, ok := v.(ReplyError); ok {
		return nil, e
	}
	return v, nil
}

// readReply reads one reply: a string, an int64, a ReplyError, a []any of these, or nil.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty line in place of a reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return ReplyError(rest), nil
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		switch {
		case err != nil:
			return nil, err
		case n < 0:
			return nil, nil //nolint:nilnil // A null is a reply, and nil is its value.
		case kind == '$':
			return readBulk(r, n)
		default:
			return readArray(r, n)
		}
	}
	return nil, fmt.Errorf("not a reply: %q", line)
}

func readBulk(r io.Reader, n int) (any, error) {
	b := make([]byte, n+len("\r\n"))
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	return string(b[:n]), nil
}

func readArray(r *bufio.Reader, n int) (any, error) {
	vs := make([]any, n)
	for i := range vs {
		v, err := readReply(r)
		if err != nil {
			return nil, err
		}
		vs[i] = v
	}
	return vs, nil
}

// command sends one command over a connection of its own.
func command(d time.Duration, network, addr, password string, args ...string) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	c, err := dial(ctx, network, addr, password)
	if err != nil {
		return nil, err
	}
	v, err := c.do(args...)
	return v, errors.Join(err, c.Close())
}

// fields reads "name:value" lines, as INFO and CLUSTER INFO answer them.
func fields(reply any) map[string]string {
	m := map[string]string{}
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}

// pairs reads an array of names and values in turn, as SENTINEL MASTER answers it.
func pairs(reply any) map[string]string {
	m := map[string]string{}
	vs, _ := reply.([]any)
	for i := 0; i+1 < len(vs); i += 2 {
		m[fmt.Sprint(vs[i])] = fmt.Sprint(vs[i+1])
	}
	return m
}
