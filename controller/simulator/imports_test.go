package simulator_test

import (
	"go/build"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/golda-dev/golda/"

// Engine and simulator run the same transitions: both import the package of inboxes, which has the lines, pools and gates, and
// the simulator has no function of that name of its own.
func TestTheTransitionsAreTheFunctionsOfTheEngine(t *testing.T) {
	for _, pkg := range []string{"worker", "controller/simulator"} {
		p, err := build.Import(module+pkg, ".", 0)
		require.NoError(t, err)
		require.Contains(t, p.Imports, module+"internal/inbox", pkg)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"controller/simulator").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	for _, of := range []string{"inbox", "line", "pool", "gate", "rate", "backoff"} {
		require.Contains(t, deps, module+"internal/"+of)
	}
	for _, not := range []string{"worker", "internal/engine", "internal/actor", "internal/control"} {
		require.NotContains(t, deps, module+not, "it starts goroutines")
	}
}
