package floors

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// floors says who may import whom, from the ground upwards: a room, then the
// rooms of Golda that it may import. A room may name only rooms above it in this
// text, so no way leads in a circle. "adapter/*" is every room under adapter, and
// a lone * is every room.
//
// DO NOT CHANGE THIS TEXT TO MAKE A BUILD PASS. It is how the house is meant to be.
// Whoever means it otherwise changes it first, and says why on a page in
// docs/decisions.
const floors = `
-- ground: pure. No go, no lock, no clock.
internal/need:
internal/plain:
behaviour:
controller:         internal/plain
controller/policy:  controller
controller/leda:    controller
internal/histogram:
internal/part:
internal/ring:
stage/queue:

-- cellar: what the engine stands on.
internal/floors:
internal/prose:
internal/actor:       internal/plain
internal/goid:
internal/yield:
internal/coro:      internal/goid
internal/coro/handoff:
internal/command:   internal/coro internal/yield
internal/inbox:      behaviour controller stage/queue
                    internal/command internal/histogram internal/plain internal/ring

-- first
worker:             behaviour internal/actor internal/command internal/coro internal/plain internal/inbox internal/yield
coordination/coroutine: behaviour internal/coro internal/need
coordination/scheduler: coordination/coroutine
                    internal/coro internal/ring

-- second: strangers to each other.
supervisor:         internal/actor internal/need internal/plain
stage:              behaviour stage/queue worker
                    internal/actor internal/command internal/histogram internal/need internal/part internal/plain internal/inbox

-- third
pipeline:           behaviour controller controller/policy stage/queue worker stage supervisor
                    internal/actor internal/command internal/goid internal/histogram internal/need internal/part internal/plain internal/ring internal/inbox

-- top: where guests are welcome.
stage/stagetest:    *
adapter/*:          *
examples/*:         *
`

// protoactor may be imported in one room only, which hides its faults.
const (
	protoactor     = "github.com/asynkron/protoactor-go"
	protoactorRoom = "internal/actor"
)

// guestFloor is where any third-party package may be imported.
const guestFloor = "top"

// family is what every room may import though it is not in the standard library.
var family = []string{"golang.org/x"}

// testGuests may be imported by the tests of every room.
var testGuests = []string{
	"github.com/stretchr/testify",
	"go.uber.org/goleak",
	"pgregory.net/rapid",
}

// mustNotLink is what a program that imports only pipeline must not carry, and
// why. Protoactor itself brings net/http, OpenTelemetry and the Prometheus client
// along; nothing we can do about those short of a fork.
var mustNotLink = map[string]string{
	"google.golang.org/grpc":    "a pipeline on one machine needs no cluster",
	"github.com/nats-io":        "only adapters talk to NATS",
	module + "/stage/stagetest": "a test kit is for tests",
	module + "/adapter":         "an adapter is chosen by the program, not by the core",
	module + "/examples":        "a lesson is not a library",
	protoactor + "/remote":      "at most once, and silent about it",
	protoactor + "/cluster":     "splits when a member freezes",
	"github.com/stretchr":       "for tests only",
	"pgregory.net/rapid":        "for tests only",
	"go.uber.org/goleak":        "for tests only",
	"testing":                   "for tests only",
	"github.com/labstack/echo":  "no web server in the core",
}

func TestEveryRoomHasItsLineAndEveryLineItsRoom(t *testing.T) {
	p, sources := house(t)
	report(t, unknownRooms(p, sources))
	report(t, emptyLines(p, sources))
}

func TestARoomImportsOnlyRoomsBelowIt(t *testing.T) {
	report(t, wrongWays(house(t)))
}

func TestOnlyOneRoomKnowsProtoactor(t *testing.T) {
	_, sources := house(t)
	report(t, strayActors(sources))
}

func TestThirdPartyPackagesStayOnTheTopFloor(t *testing.T) {
	report(t, strayGuests(house(t)))
}

func TestTheGroundFloorHasNoGoNoLockNoClock(t *testing.T) {
	report(t, impure(house(t)))
}

func TestAUserOfTheCoreLinksNoCluster(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./pipeline")
	list.Dir = root
	var complaint strings.Builder
	list.Stderr = &complaint
	out, err := list.Output()
	require.NoError(t, err, complaint.String())
	deps := strings.Fields(string(out))
	require.Contains(t, deps, module+"/pipeline")
	report(t, linked(deps, mustNotLink))
}

// house reads the plan and the sources of the real house.
func house(t *testing.T) (plan, []source) {
	t.Helper()
	p, err := parse(floors)
	require.NoError(t, err)
	sources, err := read(os.DirFS(root))
	require.NoError(t, err)
	require.Contains(t, roomsOf(sources), "behaviour", "the sources were not found")
	return p, sources
}

func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		assert.Fail(t, f)
	}
}
