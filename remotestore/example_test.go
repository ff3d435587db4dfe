package remotestore_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/remotestore"
	"github.com/tidegate-go/tidegate/remotestore/storeservice"
)

// Two services share a limit through a server. Here the server is a program's own; `tidegate serve --grpc :8081
// --token-file FILE` is one that is ready made.
func Example() {
	address, stop := startServer("a-long-random-word")
	defer stop()

	for _, service := range []string{"checkout", "search"} {
		store, err := remotestore.Open(address, &remotestore.Config{Token: "a-long-random-word"})
		if err != nil {
			panic(err)
		}
		api, err := tidegate.New(store, tidegate.Limit{Rate: 1, Per: time.Hour, Burst: 3}, nil)
		if err != nil {
			panic(err)
		}
		for range 2 {
			d, err := api.Allow(context.Background(), "tenant:42")
			fmt.Println(service, d.Allowed, d.Remaining, err)
		}
		store.Close()
	}
	// Output:
	// checkout true 2 <nil>
	// checkout true 1 <nil>
	// search true 0 <nil>
	// search false 0 <nil>
}

func startServer(token string) (address string, stop func()) {
	store := memstore.New(nil)
	service, err := storeservice.New(&storeservice.Config{Store: store, Token: token})
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	service.Register(server)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	return listener.Addr().String(), func() {
		server.Stop()
		<-ended
		store.Close()
	}
}
