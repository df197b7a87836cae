# Golda's few commands. `make` alone lists them.

GO       ?= go
BENCH    ?= .
COUNT    ?= 10
WORKS    ?=
ROUNDS   ?= 3
SECONDS  ?= 5
CHAOS    ?= 10m
SEED     ?= 0
SHORT    ?= -short
FUZZ     ?= 30s
LINTER   := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The modules of the workspace (go.work): all packages, and those without the benchmark suites and the tests with brokers.
EVERY     = $$($(GO) list -m -f '{{.Dir}}/...')
ALL       = $$($(GO) list -m -f '{{.Dir}}/...' | grep -v -e '/bench/\.\.\.$$' -e '/bench/jobs/\.\.\.$$' -e '/brokertest/\.\.\.$$')

# Compiled and run alone, by the command of their own: with two processors busy RabbitMQ takes half a minute to start, and a consumer that subscribes meanwhile may get no message.
BROKERS   = ./adapter/watermill/brokertest

# Everything that has goroutines of its own. The examples and the tutorial are left out: under the race
# detector their arithmetic on pixels is many times slower, and the engine below them is
# raced here anyway. So are the packages that only read the tree, and policies with their simulator, which compute on one goroutine,
# and each package that has no goroutine, lock, channel and atomic value in its code and tests: there is nothing to
# race, and with the detector it is compiled and linked once more. The packages whose tests
# take longest come first, so that no processor waits for them at the end.
ENGINE    = ./pipeline ./adapter/nats $$($(GO) list -f '{{.ImportPath}} {{.Dir}}' $(ALL) | \
	grep -v -e golda/examples/ -e golda/docs/ -e 'golda/controller ' -e golda/controller/leda -e golda/controller/policy -e golda/controller/race -e golda/controller/simulator -e '/pipeline ' -e '/adapter/nats ' -e /internal/face -e /internal/graph -e /internal/layers -e /internal/portable -e /internal/prose | \
	while read -r package dir; do if grep -qE '$(CONCURRENT)' "$$dir"/*.go; then echo "$$package"; fi; done)
CONCURRENT = ^[[:space:]]*go |\.Go\(|sync\.|atomic\.|chan |Parallel\(

# The packages that have benchmarks: others need not be linked to run none.
MEASURED  = $$(grep -rl --include='*_test.go' --exclude-dir=bench --exclude-dir=brokertest '^func Benchmark' . | xargs -n1 dirname | sort -u)

# Many tests wait more than they compute, so twice as many packages are tested at once as there
# are processors.
PACKAGES  = $$((2 * $$(getconf _NPROCESSORS_ONLN)))

.DEFAULT_GOAL := help
.PHONY: help test new-user brokers one-cpu race vet tidy web web-check site chaos fuzz vulnerabilities release bench bench-report bench-smoke bench-jobs microbench bench-web lint fmt cover clean

## help: list these commands
help:
	@sed -n 's/^## \([a-z-]*\): /make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

## test: all tests, as a change needs them: nine minutes on two processors (SHORT= for the long models, too)
test:
	$(GO) test -vet=off $(SHORT) -p $(PACKAGES) -timeout 30m ./pipeline ./adapter/nats ./adapter/nats/fleet $(ALL)

## new-user: what a new user does, on a fresh clone with empty caches, with the times of the first steps (TESTS=1 for make test, too)
new-user:
	.ci/new-user

## brokers: the tests with Redis and RabbitMQ; a broker that is not installed is skipped
brokers:
	$(GO) test -vet=off $(SHORT) -timeout 10m $(BROKERS)

# What one processor changes: who runs next.
ONE_CPU   = ./supervisor ./worker ./internal/actor ./internal/coro ./internal/engine ./internal/inbox ./internal/line ./coordination/...

## one-cpu: the short tests of the engine with one processor
one-cpu:
	GOMAXPROCS=1 $(GO) test -vet=off -p $(PACKAGES) -short -timeout 10m ./stage $(ONE_CPU)

## race: the engine's tests with the race detector (SHORT= for the long models, too)
race:
	$(GO) test -vet=off -race $(SHORT) -p $(PACKAGES) -timeout 30m $(ENGINE)

## vet: go vet of all modules
vet:
	$(GO) vet $(EVERY)

# The directories of the packages that a module's packages are made of: they name the versions.
SOURCES   = $(GO) list -deps -f '{{.Dir}}' ./...

## tidy: each module requires what it imports, no less and no more, also without the workspace
#
# A module that has the same versions without the workspace as in it compiles
# without it if `make vet` compiles it. Another one is built again, with all
# that imports what differs; go work sync and go mod tidy make them agree.
tidy:
	@$(call in-each,GOWORK=off $(GO) mod tidy -diff && \
		{ [ "$$($(SOURCES))" = "$$(GOWORK=off $(SOURCES))" ] || GOWORK=off $(GO) build -v -o /dev/null ./...; })

WEB       = adapter/dashboard/web
WEB_TOOLS = cd $(WEB) && npm ci --ignore-scripts --no-audit --no-fund --loglevel error

## web: the page of the dashboard, from its sources; the bundle is committed
web:
	$(WEB_TOOLS) && npm run --silent build

## web-check: the types of the page are right, and its committed bundle is what a build makes
web-check:
	$(WEB_TOOLS) && npm run --silent build -- --outDir node_modules/.dist
	diff -r $(WEB)/dist $(WEB)/node_modules/.dist

## site: the documentation as a site in out/site, without dead links
site:
	cd docs/.vitepress && npm ci --ignore-scripts --no-audit --no-fund --loglevel error && npm run --silent build

## chaos: random pipelines, faults and kills under the race detector (CHAOS=10m SEED=0)
chaos:
	$(GO) test -race -c -o bin/chaos.test ./stage/stagetest/internal/chaos
	cd stage/stagetest/internal/chaos && ../../../../bin/chaos.test -test.run TestNoPlanBreaksAPromise -test.timeout 3h -chaos.for=$(CHAOS) -chaos.seed=$(SEED)

# Each fuzz target, as package:target.
TARGETS   = $$(grep -rn --include='*_test.go' '^func Fuzz' . | sed 's|^\(.*\)/[^/]*:[0-9]*:func \(Fuzz[A-Za-z0-9_]*\).*|\1:\2|' | sort)

## fuzz: each fuzz target for a while (FUZZ=30s)
fuzz:
	@for target in $(TARGETS); do \
		echo "== $$target"; \
		$(GO) test -vet=off -run '^$$' -fuzz "^$${target#*:}$$" -fuzztime $(FUZZ) "$${target%:*}" || exit 1; \
	done

## vulnerabilities: published ones that the code of a module can reach; it asks vuln.go.dev
vulnerabilities:
	@$(call in-each,$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...)

## release: a commit and the tags of all modules, checked, with notes, licences and bills of materials in out/release; pushes nothing (VERSION=v0.1.0)
release:
	$(GO) run -C internal/release . $(VERSION)

## bench: the same work on Golda, calls, channels and peers; some minutes (WORKS=W1,W2 ROUNDS=3)
bench:
	$(GO) run -C bench . -rounds $(ROUNDS) -work '$(WORKS)'

## bench-report: the same, written to docs/performance.md as well (ROUNDS=5)
bench-report: ROUNDS = 5
bench-report:
	$(GO) run -C bench . -rounds $(ROUNDS) -report ../docs/performance.md

## bench-smoke: the benchmark suites, and each package's benchmarks, for a moment, so that none of them rots
bench-smoke:
	$(GO) test -vet=off -run '^$$' -bench . -benchtime 1x $(MEASURED) >/dev/null
	$(GO) -C bench test -vet=off -timeout 5m ./...
	$(GO) -C bench test -vet=off -race -run GoldaRaces -timeout 5m ./...
	$(GO) run -C bench . -moment -rounds 1 -impl golda >/dev/null
	$(GO) -C bench/jobs test -vet=off -timeout 5m ./...

## bench-jobs: job queues, with kills: Golda, River, asynq, Watermill; written to docs/jobs-compared.md as well (ROUNDS=3); half an hour
bench-jobs:
	$(GO) run -C bench/jobs . -rounds $(ROUNDS) -report ../../docs/jobs-compared.md
	$(GO) run -C bench/jobs . -rounds $(ROUNDS) -sync -report ../../docs/jobs-compared.md

## microbench: the benchmarks of stage and behaviour, in the form that benchstat reads (BENCH=regexp COUNT=10)
microbench:
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) -timeout 60m ./stage/... ./behaviour/...

## bench-web: the web server beside plain net/http, loaded by wrk (ROUNDS=3 SECONDS=5)
bench-web:
	$(GO) run ./examples/webserver/bench -rounds $(ROUNDS) -seconds $(SECONDS)

# in-each runs a command in each module.
in-each = for module in $$($(GO) list -m -f '{{.Dir}}'); do (cd $$module && echo "$$module" && $(1)) || exit 1; done

## lint: golangci-lint, the version named in the Makefile
lint:
	@$(call in-each,$(GO) run $(LINTER) run ./...)

## fmt: format all files in place
fmt:
	@$(call in-each,$(GO) run $(LINTER) fmt ./...)

## cover: coverage of all tests, by function; the page is coverage/index.html
cover:
	@mkdir -p coverage
	$(GO) test -timeout 15m -coverpkg github.com/golda-dev/golda/... -coverprofile coverage/profile $(ALL)
	$(GO) tool cover -html coverage/profile -o coverage/index.html
	$(GO) tool cover -func coverage/profile | tail -n 1

## clean: remove what the other commands and the examples leave behind
clean:
	rm -rf bin coverage out
	find . -type f -not -path './.git/*' \( -name '*.test' -o -name '*.out' -o -name '*.prof' \) -delete
