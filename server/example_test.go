package server_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/server"
)

func Example() {
	store := memstore.New(nil)
	defer store.Close()
	s, err := server.New(store, &server.Config{Rules: []server.Rule{{
		Name:  "per-user",
		Limit: tidegate.Limit{Rate: 100, Per: time.Minute, Burst: 20},
		Key:   []string{"user"},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	service := httptest.NewServer(s.Handler())
	defer service.Close()

	for _, cost := range []string{"20", "1"} {
		body := strings.NewReader(`{"rule":"per-user","key":"42","cost":` + cost + `}`)
		answer, err := service.Client().Post(service.URL+"/v1/take", "application/json", body)
		if err != nil {
			fmt.Println(err)
			return
		}
		decision, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			fmt.Println(err)
			return
		}
		allowed := strings.HasPrefix(string(decision), `{"allowed":true,"limit":20,"remaining":0,`)
		fmt.Println(answer.Status, answer.Header.Get("Retry-After"), allowed)
	}
	// Output:
	// 200 OK  true
	// 429 Too Many Requests 1 false
}
