package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/redisstore"
	"github.com/tidegate-go/tidegate/server"
)

const (
	storeUsage  = "memory, or a URL such as redis://localhost:6379 (default $TIDEGATE_STORE, else memory)"
	memoryStore = "memory"
)

var storeExamples = []string{memoryStore, "redis://localhost:6379", "rediss://", "unix://", "redis+cluster://", "redis+sentinel://"}

// storeForms are the URLs that redisstore opens.
const storeForms = "redis://host:6379, rediss://host:6379, unix:///path, redis+cluster://a:6379,b:6379 or redis+sentinel://a:26379,b:26379/master"

// storeName is the store that the flag names, or the environment.
func storeName(flag string) string {
	if flag != "" {
		return flag
	}
	return os.Getenv("TIDEGATE_STORE")
}

// openStore opens the store of the name; a timeout of 0 is the store's default.
func openStore(flag string, timeout time.Duration) (tidegate.Store, error) {
	return openStoreWith(flag, &redisstore.Config{Timeout: timeout})
}

// openStoreWith opens the store of the name, with the config if it is in Redis.
func openStoreWith(flag string, cfg *redisstore.Config) (tidegate.Store, error) {
	name := storeName(flag)
	switch {
	case name == "" || name == memoryStore:
		return memstore.New(nil), nil
	case !strings.Contains(name, "://"):
		return nil, fmt.Errorf("there is no store %q: write memory, %s", name, storeForms)
	}
	if _, err := url.Parse(name); err != nil {
		// The error would repeat the URL, or the part of a password that it stumbled over.
		return nil, errors.New("the URL of the store cannot be read: write " + storeForms + "; of a password, write / and other signs as %2F and the like")
	}
	store, err := redisstore.Open(name, cfg)
	if err != nil {
		return nil, errors.New(oneLine(concealed(err.Error(), name))) // it says which forms there are
	}
	return store, nil
}

// leasesOf returns what tells of the store's leases; nil if it has none.
func leasesOf(store tidegate.Store) func() server.LeaseStats {
	s, ok := store.(*redisstore.Store)
	if !ok {
		return nil
	}
	return func() server.LeaseStats {
		st := s.Stats()
		return server.LeaseStats{Taken: st.LeaseTaken, Spent: st.LeaseSpent, Lapsed: st.LeaseLapsed, Takes: st.LeaseTakes}
	}
}

// noAnswer says which store failed, and why, without a secret.
func noAnswer(flag string, err error) error {
	if e, ok := errors.AsType[*tidegate.StoreError](err); ok {
		err = e.Err
	}
	if name := storeName(flag); strings.Contains(name, "://") {
		return fmt.Errorf("no answer from %s: %s", shownStore(name), oneLine(concealed(err.Error(), name)))
	}
	return errors.New(oneLine(err.Error()))
}

// shownStore is the name of a store without user, password and options.
func shownStore(name string) string {
	scheme, rest, ok := strings.Cut(name, "://")
	if !ok {
		return name
	}
	rest, _, _ = strings.Cut(rest, "?")
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	return scheme + "://" + rest
}

// concealed is a text about the URL without the URL's secrets, as they were written and as they are meant.
func concealed(text, storeURL string) string {
	text = strings.ReplaceAll(text, storeURL, shownStore(storeURL))
	_, rest, _ := strings.Cut(storeURL, "://")
	rest, options, _ := strings.Cut(rest, "?")
	var secrets []string
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		_, password, _ := strings.Cut(rest[:at], ":")
		secrets = append(secrets, rest[:at], password)
	}
	for option := range strings.SplitSeq(options, "&") {
		name, value, _ := strings.Cut(option, "=")
		if strings.Contains(name, "pass") {
			secrets = append(secrets, value)
		}
	}
	for _, secret := range secrets {
		meant, err := url.QueryUnescape(secret)
		if err == nil && meant != "" {
			text = strings.ReplaceAll(text, meant, "***")
		}
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}

// oneLine keeps errors of several lines to one.
func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}
