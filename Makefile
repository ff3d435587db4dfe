# Tidegate: what one does here. `make` lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Every package of every module in go.work; name one to work on it alone: make race PKG=./memstore
PKG ?= work
COUNT ?= 1
BENCH ?= .
FUZZTIME ?= 30s
OPS ?= 1000000
SCREENSHOTS ?= screenshots

export FUZZTIME BASE ONLY DURATION

.PHONY: help
help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo 'Variables: PKG=$(PKG) COUNT=$(COUNT) BENCH=$(BENCH) FUZZTIME=$(FUZZTIME) OPS=$(OPS)'

.PHONY: build
build: ## Build every package of every module
	go build $(PKG)

.PHONY: test
test: deps ## Run all tests under the race detector, against real servers
	TIDEGATE_REQUIRE_SERVERS=1 go test -run 'Allocat' \
		./memstore ./rules ./guard ./internal/hotkeys ./downstream ./grpclimit ./httplimit ./httplimit/clientip ./redisstore \
		./server/internal/envoy
	TIDEGATE_REQUIRE_SERVERS=1 go test \
		-run 'InASecond|LeaseOfPaused|HoldsThroughAKill|KilledRedisUnderLoad|RunOutage|QueueMemoryIsFlat|OfBruteForce' \
		./rules ./httplimit ./redisstore ./server ./server/cmd/tidegate ./server/internal/experiment
	TIDEGATE_REQUIRE_SERVERS=1 go test -race -timeout 15m $(PKG)

.PHONY: race
race: ## Run the tests of PKG under the race detector COUNT times, to find what fails now and then
	go test -race -count=$(COUNT) -timeout 30m $(PKG)

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME
	scripts/fuzz.sh

.PHONY: conformance
conformance: deps ## Compare Go and Lua over OPS random operations
	cd redisstore && TIDEGATE_REQUIRE_SERVERS=1 TIDEGATE_CONFORMANCE_OPS=$(OPS) \
		go test -run TestDifferential -count=1 -v -timeout 30m .

.PHONY: lint
lint: ## Run go vet, gofmt, go mod tidy and golangci-lint over every module
	scripts/lint.sh

.PHONY: bench
bench: deps ## Measure beside peers in one run, and print ratios
	go run ./bench

.PHONY: bench-compare
bench-compare: deps ## Measure the latest tag, or BASE, and the working tree in turn, and compare
	@scripts/bench-compare.sh

.PHONY: bench-go
bench-go: ## Run the Go benchmarks named by BENCH, with allocations
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count=$(COUNT) $(PKG)

.PHONY: screenshots
screenshots: deps ## Write a picture of each tab of the page, in light and dark, into SCREENSHOTS
	cd e2e && TIDEGATE_REQUIRE_SERVERS=1 TIDEGATE_SCREENSHOTS=$(abspath $(SCREENSHOTS)) go test -tags screenshots -run '^TestScreenshots$$' -count=1 .

.PHONY: tidy
tidy: ## Format the code and tidy every go.mod
	gofmt -l -w $$(go list -m -f '{{.Dir}}')
	for dir in $$(go list -m -f '{{.Dir}}'); do (cd "$$dir" && go mod tidy); done

.PHONY: check
check: lint test ## Do what CI does: lint, then test

.PHONY: deps
deps: ## Install the system programs that the tests need
	@scripts/deps.sh

.PHONY: clean
clean: ## Remove what was built and the installed linter
	rm -rf .bin tidegate server/tidegate
	go clean -testcache
