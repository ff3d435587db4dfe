package etcdrules

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

const urlForms = "write etcd://HOST:PORT/KEY, etcd://HOST:PORT,HOST:PORT/KEY, or etcds:// for TLS"

// location is what a URL names.
type location struct {
	tls            bool
	user, password string
	endpoints      []string // without a scheme
	key            string
}

// parse reads a URL. Its error shows none of it, since a part may be a password.
func parse(text string) (location, error) {
	var l location
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case ok && scheme == "etcd":
	case ok && scheme == "etcds":
		l.tls = true
	default:
		return l, badURL(errors.New("it does not begin with etcd:// or etcds://"))
	}
	if strings.ContainsAny(rest, "?#") {
		return l, badURL(errors.New("there is a ? or #, which begins nothing here: in a password or a key, write %3F and %23"))
	}
	authority, path, _ := strings.Cut(rest, "/")
	list := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		list = authority[at+1:]
		user, password, _ := strings.Cut(authority[:at], ":")
		var err, err2 error
		l.user, err = url.PathUnescape(user)
		l.password, err2 = url.PathUnescape(password)
		if err != nil || err2 != nil || l.user == "" {
			return l, badURL(errors.New("the user or the password cannot be read: in one, @ / : ? # and % are written %40 %2F %3A %3F %23 and %25"))
		}
	}
	for a := range strings.SplitSeq(list, ",") {
		endpoint, err := address(a)
		if err != nil {
			return l, badURL(err)
		}
		l.endpoints = append(l.endpoints, endpoint)
	}
	key, err := url.PathUnescape(path)
	switch {
	case err != nil:
		return l, badURL(errors.New("the key cannot be read: in one, % is written %25"))
	case key == "":
		return l, badURL(errors.New("the key is missing, such as tidegate/rules"))
	}
	l.key = key
	return l, nil
}

// address returns the address of one member, with the default port where it has none.
func address(a string) (string, error) {
	host, port := a, "2379"
	if c := strings.LastIndexByte(a, ':'); c > strings.LastIndexByte(a, ']') {
		host, port = a[:c], a[c+1:]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("a port is not a number from 1 to 65535")
	}
	if bare, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(bare, "]") {
		host = strings.TrimSuffix(bare, "]")
	} else if strings.ContainsAny(host, ":[]") {
		return "", errors.New("an IPv6 address is written in brackets, as in [::1]:2379")
	}
	if host == "" {
		return "", errors.New("an address has no host")
	}
	return net.JoinHostPort(host, port), nil
}

func badURL(err error) error { return fmt.Errorf("etcdrules: the URL: %w: %s", err, urlForms) }
