package fiberlimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/contrib/fiberlimit"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
)

// A fiber app in which each client has two requests an hour, over all routes, and can see how many are left.
func Example() {
	store := memstore.New(nil) // redisstore.Open(url, nil) shares the buckets with other replicas; nothing else changes
	defer store.Close()
	limiter, err := tidegate.New(store, tidegate.Limit{Rate: 2, Per: time.Hour}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := fiberlimit.New(limiter, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	app := fiber.New()
	app.Use(limits)
	app.Get("/items/:id", func(c fiber.Ctx) error {
		d, _ := httplimit.FromContext(c.Context())
		return c.SendString(fmt.Sprintf("item %s, %d left", c.Params("id"), d.Remaining))
	})

	for _, id := range []string{"1", "2", "3"} {
		resp, err := app.Test(httptest.NewRequest(http.MethodGet, "/items/"+id, nil))
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			fmt.Println(err)
			return
		}
		if resp.StatusCode == http.StatusOK {
			fmt.Println(resp.StatusCode, string(body))
		} else {
			fmt.Println(resp.StatusCode, "Retry-After:", resp.Header.Get("Retry-After"))
		}
	}
	// Output:
	// 200 item 1, 1 left
	// 200 item 2, 0 left
	// 429 Retry-After: 1800
}
