module github.com/tidegate-go/tidegate/contrib/echolimit

go 1.26.0

require (
	github.com/labstack/echo/v5 v5.4.6
	github.com/tidegate-go/tidegate v0.0.0
	go.uber.org/goleak v1.3.0
)

require golang.org/x/time v0.15.0 // indirect

replace github.com/tidegate-go/tidegate => ../../
