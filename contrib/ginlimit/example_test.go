package ginlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/contrib/ginlimit"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
)

// A gin engine in which each client has two requests an hour, over all routes, and can see how many are left.
func Example() {
	store := memstore.New(nil) // redisstore.Open(url, nil) shares the buckets with other replicas; nothing else changes
	defer store.Close()
	limiter, err := tidegate.New(store, tidegate.Limit{Rate: 2, Per: time.Hour}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := ginlimit.New(limiter, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(limits)
	engine.GET("/items/:id", func(c *gin.Context) {
		d, _ := httplimit.FromContext(c.Request.Context())
		c.String(http.StatusOK, "item %s, %d left", c.Param("id"), d.Remaining)
	})

	for _, id := range []string{"1", "2", "3"} {
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/items/"+id, nil))
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

// A limit for one route alone, by what stands in its path: a hot item does not starve the others. Deciders and middlewares
// are as many as one likes.
func Example_route() {
	store := memstore.New(nil)
	defer store.Close()
	limiter, err := tidegate.New(store, tidegate.Limit{Rate: 1, Per: time.Hour}, &tidegate.Config{KeyBy: "path"})
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := ginlimit.New(limiter, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.GET("/items/:id", limits, func(c *gin.Context) { c.Status(http.StatusOK) })
	engine.GET("/", func(c *gin.Context) { c.Status(http.StatusOK) })

	for _, path := range []string{"/items/1", "/items/1", "/items/2", "/", "/"} {
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /items/1 200
	// /items/1 429
	// /items/2 200
	// / 200
	// / 200
}
