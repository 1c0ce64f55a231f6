# All tasks of this repository. `make help` lists them.

MODULE    := github.com/linesman/linesman
GO        ?= go
BIN       ?= bin
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME  ?= 20s
FUZZSPANS ?= 1
BENCH     ?= .
QUICK     ?=
ROUNDS    ?= 100
SOAK      ?= 8m
SEED      ?= 0
TIMES     ?= 20
PKG       ?=
COUNT     ?=
IMAGE     ?= linesman

GOLANGCI    = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GORELEASER  = github.com/goreleaser/goreleaser/v2@v2.15.4
CYCLONEDX   = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0
NATSCLI     = github.com/nats-io/natscli/nats@v0.5.1
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.8.0

OCB       = go.opentelemetry.io/collector/cmd/builder@v0.165.0
COLLECTOR = bin/collector/otelcol

# A lockfile would have to list its packages for every system, which a registry may not have.
OPENCODE = opencode-ai@1.18.33

# npm writes this file last, so it is there once an installation is whole.
AGENTS = test/lab/agents/node_modules/.package-lock.json
LIVE   = test/lab/agents/live/node_modules/.package-lock.json

.DEFAULT_GOAL := build
.PHONY: build web check test test-all test-commit lint golangci vuln deploy-check bench bench-go fuzz flaky soak page-soak trickle
.PHONY: house recovery drift agents live-agents agents-if-npm live-agents-if-npm collector otel release-check docker clean help

build: ## build bin/linesman, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN)/linesman ./cmd/linesman

# Test BuiltPageIsThatOfItsSource compares the result with what is checked in.
web: ## build the files of the page, web/dist, and its unit tests, web/testdata, from web/src; needs npm
	cd web && npm ci && npm run build

check: ## before each commit: check format, vet and lint, then make test
	@unformatted=$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...)); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(MAKE) --no-print-directory golangci test

# Package test/run says how it tests.
test: ## run the tests that need only Go, in five to seven minutes; with COUNT=1 also those that passed before
	@$(GO) run ./test/run $(COUNT:%=-count %) $(PKG)

test-all: live-agents-if-npm ## run all tests: also with real agents, a browser, clusters, faults, and the race detector
	@$(GO) run ./test/run -more all $(COUNT:%=-count %) $(PKG)

test-commit: agents-if-npm ## run the part of them that is run for each commit
	@$(GO) run ./test/run -more commit $(COUNT:%=-count %) $(PKG)

lint: golangci vuln ## check format, vet, golangci-lint and known vulnerabilities

golangci:
	$(GO) run $(GOLANGCI) run ./...

# govulncheck exits with 3 if it found something and with 1 if it could not run, for example without network.
# Only 3 is a failure. `go run` would hide the exit code.
vuln:
	@tools=$$(mktemp -d); trap 'rm -rf "$$tools"' EXIT; \
	GOBIN=$$tools $(GO) install $(GOVULNCHECK) || { echo "govulncheck: skipped, cannot be installed"; exit 0; }; \
	"$$tools/govulncheck" ./...; status=$$?; \
	case $$status in \
	0) ;; \
	3) exit 1 ;; \
	*) echo "govulncheck: skipped, it could not run (status $$status; is the vulnerability database in reach?)" ;; \
	esac

house: ## print how large the house is: rooms, arrows, lines, names, shapes of a run
	@$(GO) run ./test/house

# Package test/bench/report says how it measures. Only a whole report replaces the charts of the documentation.
deploy-check: ## check the units, manifests, compose file and manual pages with the code of those that read them
	$(GO) -C deploy/check test ./...

recovery: ## carry out docs/recovery.md on one machine and on a cluster, and prompts, with the nats command line
	@mkdir -p $(BIN)/tools
	GOBIN=$(CURDIR)/$(BIN)/tools $(GO) install $(NATSCLI)
	PATH="$(CURDIR)/$(BIN)/tools:$$PATH" TEST_ALL=1 TEST_REQUIRE_NATS_CLI=1 $(GO) test -count 1 -v -run 'TestRecovery|TestCommandsOfThePage' ./test/security ./test/clients/natsagents

# It compiles goreleaser, which takes minutes.
release-check: ## check .goreleaser.yaml, and build a release into bin/dist, without publishing it
	@mkdir -p $(BIN)/tools
	GOBIN=$(CURDIR)/$(BIN)/tools $(GO) install $(GORELEASER)
	GOBIN=$(CURDIR)/$(BIN)/tools $(GO) install $(CYCLONEDX)
	$(BIN)/tools/goreleaser check
	PATH="$(CURDIR)/$(BIN)/tools:$$PATH" $(BIN)/tools/goreleaser release --snapshot --clean --skip=publish,homebrew

bench: ## print the table of all measurements, in 12 minutes, and write it to bin/bench.json; BENCH=regexp selects rows, QUICK=1 takes 3 minutes
	@mkdir -p $(BIN)
	$(GO) build -o $(BIN)/report ./test/bench/report
	$(BIN)/report -rows '$(BENCH)' $(if $(QUICK),-quick) -json $(BIN)/bench.json -date "$$(date -u +%FT%TZ)" -commit "$(VERSION)"
	$(GO) -C test/bench/chart run . "$(CURDIR)/$(BIN)/bench.json" "$(CURDIR)/$(if $(QUICK)$(filter-out .,$(BENCH)),$(BIN),docs)"

bench-go: ## run the Go benchmarks of the packages; BENCH=regexp selects some
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

fuzz: ## try new random cases, then each fuzz target for FUZZTIME; FUZZSPANS=10: up to ten times, until it reaches nothing new
	RAPID_CHECKS=500 $(GO) test -count 1 ./agent/... ./bounds ./config ./cmd/console ./normalizer/... ./runs
	TEST_ALL=1 $(GO) test -count 1 -run DamageAnywhere ./bus/pipeline
	test/fuzz.sh $(FUZZTIME) $(FUZZSPANS)

flaky: ## run the tests of PKG TIMES times each: normally, beside busy loops and on one processor
	test/flaky.sh $(TIMES) $(or $(PKG),./...)

soak: ## run all tests of whole programs with the race detector, inject ROUNDS faults in each test of test/chaos, about 3 s each, then 200 concurrent runs for SOAK; SEED=N repeats a schedule
	TEST_ALL=1 $(GO) test -race -count 1 -timeout 1h -p 1 -parallel 4 ./cmd/... ./test/...
	TEST_ALL=1 $(GO) test -race -count 1 -timeout 3h -v -run 'LosesAndDoubles|LoseAndDouble|Paused|ShareItsRuns' ./test/chaos -chaos.rounds=$(ROUNDS) -chaos.seed=$(SEED)
	TEST_ROUNDS=$(ROUNDS) $(GO) test -race -count 1 -timeout 3h -v -run 'KilledFeeders' ./worker
	TEST_ALL=1 $(GO) test -race -count 1 -timeout 3h -v ./test/cells -cells.rounds=$$(( ($(ROUNDS) + 9) / 10 ))
	TEST_ALL=1 $(GO) test -count 1 -timeout 1h -v -run 'SoakStaysFlat' ./test/chaos -chaos.soak=$(SOAK) -chaos.seed=$(SEED)

page-soak: ## show the page a run with 200 events a second for SOAK, and compare the memory of the browser
	TEST_ALL=1 $(GO) test -count 1 -timeout 1h -v -run 'SoakOfThePage' ./test/page -page.soak=$(SOAK)

trickle: ## keep `up` under a trickle for SOAK (8h is a working day), and print what it uses
	TEST_ALL=1 $(GO) test -count 1 -timeout 0 -v -run 'TrickleStaysFlat' ./test/chaos -chaos.soak=$(SOAK) -chaos.seed=$(SEED)

# Long, and from the network: no part of a check of a commit.
drift: live-agents ## play published versions of the agents and list what linesman does not know, then the suite of live ones; AGENT=claude VERSIONS="2.1.330" restricts it
	$(GO) run ./test/drift -agent "$(AGENT)" -versions "$(VERSIONS)"
	$(if $(AGENT)$(VERSIONS),,TEST_ALL=1 $(GO) test -count 1 -timeout 30m -v -run 'LiveContract' ./test/e2e)

agents: $(AGENTS) ## install the pinned agent command lines into test/lab/agents

$(AGENTS): test/lab/agents/package.json test/lab/agents/package-lock.json
	cd test/lab/agents && npm ci && npm install --no-save --no-package-lock $(OPENCODE)
	@touch $@

live-agents: agents $(LIVE) ## install also the servers of the Agent Client Protocol, 1 GB, into test/lab/agents/live

$(LIVE): test/lab/agents/live/package.json
	cd test/lab/agents/live && npm install --no-package-lock
	@touch $@

# Tests that need an agent are skipped without it, unless TEST_REQUIRE_AGENTS=1.
agents-if-npm live-agents-if-npm:
	@if ! command -v npm >/dev/null; then echo "agents: npm is not installed, tests that run a real agent will say so"; \
	elif ! $(MAKE) --no-print-directory $(@:-if-npm=); then \
	  echo "agents: npm could not install them"; test "$$TEST_REQUIRE_AGENTS" != 1; \
	fi

# The official collector takes minutes to build, so no other target does it.
collector: $(COLLECTOR) ## build the OpenTelemetry collector into bin, once, in minutes

$(COLLECTOR): test/lab/collector/builder.yaml
	$(GO) run $(OCB) --config test/lab/collector/builder.yaml
	@touch $@

otel: collector ## run the tests of traces and metrics against the OpenTelemetry collector
	for protocol in http grpc; do TEST_ALL=1 TEST_COLLECTOR=$(abspath $(COLLECTOR)) TEST_COLLECTOR_PROTOCOL=$$protocol \
	$(GO) test -count 1 -v -run 'TestExportKilled|IsExported|TestTraceparent' ./test/e2e || exit; done

docker: ## build the container image
	docker build --build-arg VERSION=$(VERSION) -t $(IMAGE) .

clean: ## remove what was built and installed
	rm -rf $(BIN) test/lab/agents/node_modules test/lab/agents/live/node_modules test/clients/*/node_modules test/page/node_modules web/node_modules

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-13s %s\n", $$1, $$2 }' Makefile
