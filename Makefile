# Everything a developer runs. `make` alone lists the targets.

export CGO_ENABLED = 0
# One kind of compilation for vet, tests and binaries, wherever the checkout stands: each package is compiled once.
export GOFLAGS := -trimpath $(filter-out -trimpath,$(GOFLAGS))

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOBUILD  = go build -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)'
GOFILES  = find . -name '*.go' -not -path './.git/*' -not -path '*/node_modules/*' -not -path '*/testdata/*'
UISOURCES := $(shell find management-ui/src management-ui/public -type f) $(wildcard management-ui/*.*)
T       ?= 10s
ARGS    ?=
# The RabbitMQ whose answers are recorded.
AMQP    ?= amqp://guest:guest@127.0.0.1:5672/
HTTP    ?= http://guest:guest@127.0.0.1:15672

.DEFAULT_GOAL := help
.PHONY: help build ui run test unit vet lint fmt gen gen-check race bench fuzz e2e e2e-full e2e-clients transcripts ui-test clean tools fmt-check

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

tools:
	@bash .ci/tools go

build: tools ui ## build bin/warren and bin/amqpctl
	@mkdir -p bin
	@[ -e bin/warren ] || echo 'building for the first time: it may take some minutes'
	$(GOBUILD) -o bin/warren ./cmd/warren
	$(GOBUILD) -o bin/amqpctl ./cmd/amqpctl

ui: management-ui/dist/index.html ## build the web UI into management-ui/dist

management-ui/dist/index.html: management-ui/node_modules/.from $(UISOURCES)
	cd management-ui && npm run --silent build

management-ui/node_modules/.from: management-ui/package-lock.json
	@bash .ci/tools node
	cd management-ui && npm ci && touch node_modules/.from

run: build ## build and start a broker with its data in ./data (ARGS='--amqp :5673' moves a port)
	@echo
	@if [ -n '$(ARGS)' ]; then echo '  addresses are in the line "ready" below; guest, guest'; else \
	  echo '  AMQP      amqp://guest:guest@localhost:5672'; \
	  echo '  web UI    http://localhost:15672   (guest, guest)'; \
	  echo '  metrics   http://localhost:15692/metrics'; \
	  echo '  CLI       bin/amqpctl status'; fi
	@echo '  stop      Ctrl-C; the data stays in ./data'
	@echo
	@exec bin/warren server --data-dir ./data $(ARGS)

test: tools ## install what the tests need, then run every test but the long ones
	@bash .ci/test

unit: tools ## go vet and go test only: no packages to install, no processes
	@bash .ci/test unit

vet: tools ## go vet on this platform, on Linux arm64 and on macOS
	go vet ./...
	GOOS=linux GOARCH=arm64 go vet ./...
	GOOS=darwin GOARCH=arm64 go vet ./...

lint: tools fmt-check ## gofmt, and golangci-lint if it is installed
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo 'golangci-lint is not installed: only gofmt was checked'; fi

fmt-check:
	@unformatted=$$(gofmt -l $$($(GOFILES))); \
	  if [ -n "$$unformatted" ]; then echo "not formatted (make fmt does it):"; echo "$$unformatted"; exit 1; fi

fmt: ## format all Go files
	gofmt -w $$($(GOFILES))

gen: tools ## write the generated files anew
	go generate ./...
	go test ./config -run TestReference -count=1 -rewrite
	go test ./meta -run TestArgumentsReference -count=1 -rewrite

gen-check: tools ## fail if a generated file is not what its generator writes
	@bash .ci/gen-check

race: tools ## go test with the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -timeout 30m ./...

bench: tools ## run every benchmark once
	go test -run '^$$' -bench . -benchmem ./...

fuzz: tools ## run every fuzz target for T=10s
	@bash .ci/fuzz $(T)

e2e: build ## run the end-to-end tests on bin/warren and bin/amqpctl (RUN=pattern for some)
	@bash .ci/test e2e $(RUN)

e2e-clients: build ## run all that the foreign clients can do, amqp091-go's own tests among it (port 15672 must be free)
	@bash .ci/deps
	WARREN_E2E=full WARREN_BIN=$(CURDIR)/bin/warren AMQPCTL_BIN=$(CURDIR)/bin/amqpctl go test -count=1 -v -timeout 30m ./e2e/clients

transcripts: tools ## record anew what RabbitMQ 3.10 answers (AMQP=URL HTTP=URL of a running one)
	@curl -sf -o /dev/null "$(HTTP)/api/overview" || { echo "no RabbitMQ at $(HTTP): name a running one, of version 3.10, with AMQP=URL HTTP=URL" >&2; exit 69; }
	WARREN_E2E=1 WARREN_E2E_AMQP_URL="$(AMQP)" WARREN_E2E_HTTP_URL="$(HTTP)" go test -count=1 ./e2e/conformance -run TestTranscripts -record

ui-test: build ## check the web UI and show it to a browser
	@bash .ci/test ui

e2e-full: build ## the same with the long ones
	@WARREN_E2E=full bash .ci/test e2e $(RUN)

clean: ## remove what was built, and nothing else
	rm -rf bin management-ui/node_modules e2e/clients/node/node_modules
	find management-ui/dist -mindepth 1 ! -name placeholder.html -delete
