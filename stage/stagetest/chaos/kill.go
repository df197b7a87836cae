package chaos

import (
	"math/rand/v2"
	"strings"

	"github.com/golda-dev/golda/internal/actor"
)

// prefix returns the prefix of the names of a pipeline's actors.
func prefix(pipeline string) string { return "golda/" + pipeline + "$" }

// kills reports whether an action kills the actor of that name, which is relative to the pipeline's.
func (a Action) kills(name string) bool {
	parts := strings.Split(name, "/")
	last := parts[len(parts)-1]
	special := strings.HasPrefix(parts[0], "(")
	switch a {
	case KillWorker:
		return strings.HasPrefix(last, "worker-")
	case KillSupervisor:
		return len(parts) == 1 && !special && strings.Contains(last, "$")
	case KillControlLoop:
		return len(parts) == 1 && strings.HasPrefix(last, "(controllers)")
	case KillPool:
		return len(parts) == 2 && parts[0] == "(pools)"
	case KillFeed:
		return strings.HasPrefix(parts[0], "feed$")
	default:
		return false
	}
}

// kill stops a random actor below a prefix that the action kills. It stops it from outside, without its supervisor's
// knowledge, as a bug in the code of an actor might. It reports false if there is none.
func kill(system *actor.System, prefix string, a Action, rnd *rand.Rand) bool {
	var found []string
	for _, name := range actor.Processes(system, prefix) {
		if _, below, ok := strings.Cut(strings.TrimPrefix(name, prefix), "/"); ok && a.kills(below) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return false
	}
	actor.Stop(system, actor.Local(system, found[rnd.IntN(len(found))]))
	return true
}
