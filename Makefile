# Two commands do all the set-up on a fresh machine with Go: `make demo` and `make test`.
# Everything that is built or fetched beside Debian packages goes to bin/ and .cache/.

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   = -s -w -X main.version=$(VERSION)
CACHE    := $(CURDIR)/.cache
PTLAUNCH := bin/ptlaunch
LINT     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The Collector that the tests talk to. Jaeger and Prometheus 3 are for `make e2e`.
export PTLAUNCH_OTELCOL    ?= $(CACHE)/otelcol
export PTLAUNCH_JAEGER     ?= $(CACHE)/jaeger
export PTLAUNCH_PROMETHEUS ?= $(CACHE)/prometheus
# OpenTelemetry's SDK for Python, for a training script that uses it.
export PTLAUNCH_OTEL_PYTHON ?= $(CACHE)/otel-python

# Debian's Prometheus, promtool and process-exporter, unpacked: see scripts/setup.sh.
FUZZTIME ?= 10s
UNPACKED := $(CACHE)/debian
export PATH := $(UNPACKED)/usr/bin:$(PATH)

.PHONY: all build demo test test-short lint fmt bench fuzz concurrent golden lab e2e clean help

all: build

help: ## print this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

build: ## build bin/ptlaunch
	go build -trimpath -ldflags '$(LDFLAGS)' -o $(PTLAUNCH) ./cmd/ptlaunch

demo: build ## run the example training under ptlaunch and print its verdict
	scripts/setup.sh demo
	$(PTLAUNCH) --out .cache/demo-runs -- "$$(scripts/setup.sh python)" examples/train.py --data .cache/demo-data --checkpoint-dir .cache/demo-checkpoints

test: test-deps ## install what the tests need, then run them all
	go vet ./...
	go test -timeout 40m ./...

test-short: ## the tests that need nothing but Go
	go test -short ./...

.PHONY: test-deps
test-deps: $(PTLAUNCH_OTELCOL) $(UNPACKED)/usr/bin/promtool
	scripts/setup.sh test

$(UNPACKED)/usr/bin/promtool:
	scripts/setup.sh unpack $(UNPACKED)

$(PTLAUNCH_OTELCOL): test/otelcol/go.mod test/otelcol/main.go
	@echo 'building the OpenTelemetry Collector for the tests (minutes the first time)'
	cd test/otelcol && go build -trimpath -o $@ .

e2e: test-deps $(PTLAUNCH_JAEGER) $(PTLAUNCH_PROMETHEUS) $(PTLAUNCH_OTEL_PYTHON) ## whole runs against Collector, Jaeger and Prometheus 3
	cd test/dashboards && go test ./...
	promtool test rules collector-config/prometheus/alerts.test.yaml
	go test -tags e2e -timeout 30m -count 1 ./test/e2e/...

lab: test-deps ## run the ground-truth laboratory (a quarter of an hour, root) and write docs/accuracy.md
	go run ./test/lab -docs docs/accuracy.md

bench: $(PTLAUNCH_OTELCOL) ## what ptlaunch costs beside its floor and its peers (6 minutes, root), into docs/performance.md
	go run ./test/bench -docs docs/performance.md

$(PTLAUNCH_JAEGER): test/e2e/jaeger/go.mod
	@echo 'building Jaeger for the end-to-end tests (many minutes the first time)'
	cd test/e2e/jaeger && go build -trimpath -o $@ github.com/jaegertracing/jaeger/cmd/jaeger

$(PTLAUNCH_OTEL_PYTHON):
	python3 -m pip install --quiet --disable-pip-version-check --target $@ opentelemetry-sdk opentelemetry-exporter-otlp-proto-http

# remove_all_sd leaves out service discovery, which is most of what there is to compile.
$(PTLAUNCH_PROMETHEUS): test/e2e/prometheus/go.mod
	@echo 'building Prometheus 3 for the end-to-end tests (minutes the first time)'
	cd test/e2e/prometheus && go build -trimpath -tags remove_all_sd -o $@ github.com/prometheus/prometheus/cmd/prometheus

lint: ## vet, format and golangci-lint
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'gofmt would change these'; exit 1; }
	GOBIN=$(CACHE)/bin go install $(LINT)
	$(CACHE)/bin/golangci-lint run ./...

fmt: ## gofmt everything
	gofmt -w $$(git ls-files '*.go')

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@for pkg in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "== $$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

concurrent: ## what several goroutines share, many times under the race detector
	go test -race -count 20 ./internal/sampler/latest
	go test -race -count 5 -run 'Tee|Spool|Loop|Shutdown' ./internal/snapshot ./otelio ./internal/agent

golden: ## rewrite the golden files after a change that was meant; read the diff
	go test ./internal/report ./internal/doctor -update
	go test ./otelio -run TestReference -update
	go test ./test/lab -run Recordings -update
	cd test/dashboards && go test -run TestUpToDate -update .

clean: ## remove what was built
	rm -rf bin .cache
