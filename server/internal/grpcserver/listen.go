package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Listen listens on host:port, or on a socket of the file system: unix:path. A socket that a process before left behind
// is replaced; one that is listened on is not.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !isUnix {
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	if path == "" {
		return nil, errors.New("unix: names no file: write for example unix:/run/tidegate.sock")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if err := abandoned(ctx, path); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return new(net.ListenConfig).Listen(ctx, "unix", path)
}

// abandoned returns nil if the file is a socket that nobody listens on.
func abandoned(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is a file, and no socket", path)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("%s is listened on by another process: %w", path, syscall.EADDRINUSE)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return nil
}
