package layers

import (
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layers says which package may import which, from the lowest layer upwards: a package, then the packages of Golda that
// it may import. A package may list only packages above it in this text, so there are no cycles. "adapter/*" is every
// package under adapter, and a lone * is every package.
//
// DO NOT CHANGE THIS TEXT TO MAKE A BUILD PASS. It is the intended architecture. To change the architecture, change
// this text first, and give the reasons in a section of a page in docs/decisions.
const layers = `
-- ground: pure. No goroutines, no locks, no clock.
internal/backoff:
internal/forecast:
internal/bigstack:
internal/plain:
internal/link:
internal/part:
behaviour:          internal/link
controller:         internal/plain
controller/policy:  controller
internal/ring:
internal/rate:
internal/histogram:
internal/steer:      controller internal/histogram internal/ring
controller/leda:    controller
stage/queue:        internal/ring
stage/reason:
stage/overflow:
stage/route:
coordination/guard:
stage/stats:        coordination/guard internal/histogram stage/reason
internal/requests:   coordination/guard
internal/transaction: coordination/guard internal/requests
internal/rules:      coordination/guard
coordination/synchronizer: coordination/guard internal/rules

-- cellar: the base of the engine.
internal/layers:
internal/prose:
internal/portable:
internal/face:
internal/goid:
internal/actor:       internal/bigstack internal/goid internal/plain
internal/stacks:
internal/states:
internal/yield:
internal/cputime:
internal/kept:
internal/lockfile:
internal/coro:      internal/goid
internal/coro/handoff:
internal/command:   internal/coro internal/link internal/yield
internal/handling:  behaviour internal/command internal/link
internal/feed:      internal/ring
internal/crash:     internal/plain internal/stacks
internal/plain/apart: internal/plain
internal/line:      behaviour coordination/guard stage/queue
                    internal/command internal/link internal/plain/apart internal/rate internal/requests internal/ring
internal/pool:      controller internal/steer
internal/streak:
internal/gate:      controller stage/queue stage/reason
                    internal/command internal/plain internal/plain/apart
internal/inbox:      behaviour controller stage/queue stage/reason stage/stats
                    internal/backoff internal/command internal/forecast internal/gate internal/handling internal/histogram internal/line internal/link internal/plain internal/plain/apart internal/pool internal/rate
                    internal/streak internal/yield
internal/version:   behaviour internal/crash internal/inbox internal/plain

controller/simulator: controller controller/policy stage/queue
                    internal/command internal/histogram internal/inbox internal/line internal/rate internal/ring internal/steer

-- first
worker:             behaviour internal/actor internal/backoff internal/command internal/coro internal/crash internal/handling internal/inbox internal/line internal/link internal/plain internal/stacks
                    internal/version internal/yield
internal/engine:    behaviour stage/queue stage/reason worker
                    internal/actor internal/bigstack internal/command internal/crash internal/inbox internal/link internal/part internal/plain internal/stacks internal/states
                    internal/version
coordination/coroutine: behaviour internal/coro internal/link
coordination/scheduler: coordination/coroutine
                    internal/coro internal/ring
source:             internal/feed
stage/headers:      internal/command internal/link
reexec:             internal/link
coordination/transport: coordination/coroutine internal/kept

internal/logs:      internal/crash internal/plain internal/stacks stage/reason
internal/graph:     behaviour internal/inbox
internal/stall:     internal/engine
internal/control:   controller stage/queue
                    internal/actor internal/cputime internal/crash internal/engine internal/goid internal/graph internal/inbox internal/logs internal/part internal/stall internal/steer

-- second: these do not import each other.
supervisor:         internal/actor internal/backoff internal/link internal/plain
stage:              behaviour coordination/guard stage/overflow stage/queue stage/reason stage/stats worker
                    internal/actor internal/backoff internal/command internal/crash internal/engine internal/gate internal/handling internal/line internal/link internal/part internal/plain internal/inbox
                    internal/rate internal/states internal/version

-- third
internal/verdict:   stage stage/reason internal/backoff
coordination/rpc:   coordination/coroutine coordination/guard coordination/synchronizer coordination/transport stage stage/headers supervisor
                    internal/actor internal/command internal/coro internal/kept internal/link internal/plain internal/requests internal/rules internal/transaction
coordination/monitor: coordination/coroutine coordination/rpc coordination/transport supervisor
                    internal/coro internal/link
window:             behaviour stage internal/command internal/link internal/part internal/plain internal/states
window/event:       behaviour stage internal/command internal/link internal/part internal/plain internal/states
internal/letters:   stage stage/reason internal/crash internal/inbox internal/kept internal/link internal/lockfile internal/logs internal/plain internal/ring
pipeline/letters:   stage stage/reason internal/letters internal/link internal/part
pipeline/remote:    internal/engine
pipeline/flight:
internal/flight:    pipeline/flight internal/histogram
pipeline:           behaviour controller controller/policy worker source stage stage/reason stage/stats supervisor
                    pipeline/flight pipeline/letters pipeline/remote
                    internal/actor internal/command internal/control internal/cputime internal/crash internal/engine internal/feed internal/flight internal/graph internal/inbox internal/letters internal/logs
                    internal/link internal/lockfile internal/part internal/plain internal/states
pipeline/bottleneck: pipeline stage
pipeline/tap:       behaviour pipeline stage/headers
pipeline/operate:   controller internal/link internal/plain pipeline pipeline/letters
controller/race:    controller controller/policy controller/simulator stage stage/queue stage/stats pipeline
                    internal/link

-- top: third-party dependencies are allowed.
stage/headers/headerstest: stage/headers
internal/release:
stage/stagetest/internal/oracle: pipeline stage internal/actor
stage/stagetest/internal/disturb: controller internal/actor stage/stagetest/internal/oracle
stage/stagetest:    *
stage/stagetest/internal/chaos: *
coordination/transport/transporttest: coordination/transport
internal/nodetest:  coordination/coroutine coordination/monitor coordination/rpc
controller/lab:     *
adapter/*:          *
cmd/*:              *
vet:                *
vet/*:              *
examples/*:         *
docs/tutorial/*:    *
`

// protoactor may be imported in one package only, which hides its faults.
const (
	protoactor        = "github.com/asynkron/protoactor-go"
	protoactorPackage = "internal/actor"
)

// openLayer is the layer in which any third-party dependency may be imported.
const openLayer = "top"

// family may be imported by every package although it is not in the standard library.
var family = []string{"golang.org/x"}

// testDependencies may be imported by the tests of every package.
var testDependencies = []string{
	"github.com/cockroachdb/datadriven", // conversations with an inbox, as files
	"github.com/stretchr/testify",
	"go.uber.org/goleak",
	"pgregory.net/rapid",
}

// mustNotLink lists what a program that imports only pipeline must not link, with the reasons. Protoactor itself links
// net/http, OpenTelemetry and the Prometheus client; only a fork could avoid those.
var mustNotLink = map[string]string{
	"google.golang.org/grpc":    "a pipeline on one machine needs no cluster",
	"github.com/nats-io":        "only adapters talk to NATS",
	module + "/stage/stagetest": "a test kit is for tests",
	module + "/adapter":         "an adapter is chosen by the program, not by the core",
	module + "/controller/lab":  "a laboratory is for experiments",
	module + "/examples":        "an example is not a library",
	module + "/docs":            "a tutorial is not a library",
	protoactor + "/remote":      "delivers at most once, and loses messages silently",
	protoactor + "/cluster":     "splits when a member freezes",
	"github.com/stretchr":       "for tests only",
	"pgregory.net/rapid":        "for tests only",
	"go.uber.org/goleak":        "for tests only",
	"testing":                   "for tests only",
	"github.com/labstack/echo":  "no web server in the core",
}

func TestEveryPackageHasALineAndEveryLineAPackage(t *testing.T) {
	p, sources := project(t)
	report(t, unknownPackages(p, sources))
	report(t, emptyLines(p, sources))
}

func TestAPackageImportsOnlyPackagesBelowIt(t *testing.T) {
	report(t, wrongImports(project(t)))
}

func TestOnlyOnePackageImportsProtoactor(t *testing.T) {
	_, sources := project(t)
	report(t, protoactorImports(sources))
}

func TestThirdPartyDependenciesStayInTheTopLayer(t *testing.T) {
	report(t, thirdPartyImports(project(t)))
}

func TestTheGroundLayerHasNoGoroutineNoLockNoClock(t *testing.T) {
	report(t, impure(project(t)))
}

func TestTheCoreDoesNotLinkACluster(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./pipeline")
	list.Dir = root
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, stderr.String())
	deps := strings.Fields(string(out))
	require.Contains(t, deps, module+"/pipeline")
	report(t, linked(deps, mustNotLink))
}

// project reads the plan and the sources of the project.
func project(t *testing.T) (plan, []source) {
	t.Helper()
	p, err := parse(layers)
	require.NoError(t, err)
	sources, err := read(os.DirFS(root))
	require.NoError(t, err)
	require.Contains(t, packagesOf(sources), "behaviour", "the sources were not found")
	return p, sources
}

func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		assert.Fail(t, f)
	}
}

// Programs of the core alone would require what the root's go.mod requires.
func TestTheCoreRequiresNothingOfAnAdapter(t *testing.T) {
	text, err := os.ReadFile(path.Join(root, "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\n\t"+protoactor+" ")
	for _, of := range []string{
		"github.com/nats-io/", "github.com/ThreeDotsLabs/", "github.com/failsafe-go/", "github.com/fsnotify/", "github.com/HdrHistogram/", "golang.org/x/image", module + "/",
	} {
		require.NotContains(t, string(text), "\n\t"+of)
	}
}
