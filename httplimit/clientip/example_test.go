package clientip_test

import (
	"fmt"
	"net/http"

	"github.com/tidegate-go/tidegate/httplimit/clientip"
)

// A load balancer in 10.0.0.0/8 appends who it speaks for. What the client wrote itself stands to the left of that.
func Example() {
	resolver, err := clientip.New(&clientip.Config{Trusted: []string{"10.0.0.0/8"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	header := http.Header{"X-Forwarded-For": {"198.51.100.1, 203.0.113.9"}}
	fmt.Println(resolver.Addr("10.0.0.1:54321", header))
	fmt.Println(resolver.Addr("192.0.2.66:54321", header)) // not through the load balancer: nothing is believed
	// Output:
	// 203.0.113.9
	// 192.0.2.66
}

// The replay of an access log finds the same client in its columns.
func ExampleLines() {
	resolver, err := clientip.New(&clientip.Config{Trusted: []string{"private"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	key, ok := resolver.Key("10.0.0.1", clientip.Lines{"2001:db8:1:2:3:4:5:6"})
	fmt.Println(key, ok)
	// Output: 2001:db8:1:2:: true
}
