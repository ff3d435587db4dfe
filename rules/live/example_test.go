package live_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/live"
)

// An engine whose rules follow a file.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(path, []byte("version: 1\nrules:\n  - {name: api, key: [user], limit: 10/s burst 20}\n"), 0o600); err != nil {
		panic(err)
	}

	set, err := rules.Load(path)
	if err != nil {
		fmt.Println(err) // each mistake with its line and column
		return
	}
	store := memstore.New(nil)
	defer store.Close()
	engine, err := rules.New(store, set, nil)
	if err != nil {
		panic(err)
	}
	file, err := live.NewFile(path, nil)
	if err != nil {
		panic(err)
	}
	l, err := live.New(engine, file, nil)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	if err := l.First(ctx); err != nil {
		panic(err)
	}
	d, err := engine.Decide(ctx, tidegate.AttributeMap{"user": "42"}, 1)
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Allowed, d.Rule, d.Remaining)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		panic(err)
	}
	// Output: true api 19
}
