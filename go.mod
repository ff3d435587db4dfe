module github.com/tidegate-go/tidegate

go 1.26

require (
	github.com/cockroachdb/datadriven v1.0.3
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v4 v4.0.0
	pgregory.net/rapid v1.3.0
)

require github.com/pmezard/go-difflib v1.0.0 // indirect
