package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/queue"
)

// Mails leave at most a hundred a second, evenly, however they come in; beyond three that wait, the caller knows at once.
func Example() {
	store := memstore.New(nil)
	defer store.Close()
	limit := tidegate.Limit{Rate: 100, Per: time.Second, Algorithm: tidegate.LeakyBucket, Queue: 10}
	mails, err := tidegate.New(store, limit, nil)
	if err != nil {
		panic(err)
	}
	send := func(_ context.Context, to string) { fmt.Println("sent to", to) }
	q, err := queue.New(mails, send, &queue.Config[string]{Size: 3, Workers: 1})
	if err != nil {
		panic(err)
	}
	for _, to := range []string{"ann", "ben", "cem"} {
		if err := q.Put(context.Background(), to); errors.Is(err, queue.ErrFull) {
			fmt.Println("try again later:", to)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	left, err := q.Shutdown(ctx) // as the program ends: write what is left to where the next one finds it
	fmt.Println(len(left), "left,", err)
	// Output:
	// sent to ann
	// sent to ben
	// sent to cem
	// 0 left, <nil>
}
