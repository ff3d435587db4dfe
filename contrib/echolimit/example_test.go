package echolimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/contrib/echolimit"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
)

// An echo instance in which each client has two requests an hour, over all routes, and can see how many are left.
func Example() {
	store := memstore.New(nil) // redisstore.Open(url, nil) shares the buckets with other replicas; nothing else changes
	defer store.Close()
	limiter, err := tidegate.New(store, tidegate.Limit{Rate: 2, Per: time.Hour}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := echolimit.New(limiter, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	e := echo.New()
	e.Use(limits)
	e.GET("/items/:id", func(c *echo.Context) error {
		d, _ := httplimit.FromContext(c.Request().Context())
		return c.String(http.StatusOK, fmt.Sprintf("item %s, %d left", c.Param("id"), d.Remaining))
	})

	for _, id := range []string{"1", "2", "3"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/items/"+id, nil))
		if w.Code == http.StatusOK {
			fmt.Println(w.Code, w.Body)
		} else {
			fmt.Println(w.Code, "Retry-After:", w.Header().Get("Retry-After"))
		}
	}
	// Output:
	// 200 item 1, 1 left
	// 200 item 2, 0 left
	// 429 Retry-After: 1800
}
