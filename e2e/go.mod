module github.com/tidegate-go/tidegate/e2e

go 1.26.0

require (
	github.com/chromedp/cdproto v0.160.1
	github.com/chromedp/chromedp v0.23.1
	github.com/coder/websocket v1.8.15
	github.com/dunglas/httpsfv v1.1.2
	github.com/go-chi/chi/v5 v5.5.0
	github.com/rs/cors v1.11.1
	github.com/tidegate-go/tidegate v0.0.0
	github.com/tidegate-go/tidegate/server v0.0.0
	go.uber.org/goleak v1.3.0
)

require github.com/go-json-experiment/json v1.27.2 // indirect

replace github.com/tidegate-go/tidegate => ../

replace github.com/tidegate-go/tidegate/server => ../server

replace github.com/tidegate-go/tidegate/redisstore => ../redisstore

replace github.com/tidegate-go/tidegate/etcdrules => ../etcdrules
