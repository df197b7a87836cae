package stagetest

import (
	"math/rand/v2"
	"strings"

	"github.com/golda-dev/golda/internal/actor"
)

// Victim is a kind of actor that a trial can kill. A kill stops the actor from outside, without its supervisor's
// knowledge, as a bug in the code of an actor might.
type Victim uint8

// The victims.
const (
	Worker   Victim = iota // runs handlers
	Keeper                 // the actor of a stage: the supervisor of its workers
	Clerk                  // the actor of the control loop
	Pools                  // the supervisor of shared pools, and of stages that were added
	PoolsOwn               // the supervisor of one pool
	victims
)

var victimNames = [victims]string{"worker", "stage supervisor", "control loop", "pools", "pool supervisor"}

// String returns the kind in words.
func (v Victim) String() string {
	if v < victims {
		return victimNames[v]
	}
	return "unknown"
}

// is reports whether an actor is of the kind, by its name below the pipeline's.
func (v Victim) is(name string) bool {
	parts := strings.Split(name, "/")
	last := parts[len(parts)-1]
	special := strings.HasPrefix(parts[0], "(")
	switch v {
	case Worker:
		return strings.HasPrefix(last, "worker-")
	case Keeper:
		return len(parts) == 1 && !special && strings.Contains(last, "$")
	case Clerk:
		return len(parts) == 1 && strings.HasPrefix(last, "(controllers)")
	case Pools:
		return len(parts) == 1 && strings.HasPrefix(last, "(pools)")
	case PoolsOwn:
		return len(parts) == 2 && strings.HasPrefix(parts[0], "(pools)") && strings.HasPrefix(last, "pool-")
	default:
		return false
	}
}

// kill stops a random actor of a kind below a prefix. It reports false if there is none.
func kill(system *actor.System, prefix string, v Victim, rnd *rand.Rand) bool {
	var found []string
	for _, name := range actor.Processes(system, prefix) {
		if _, below, ok := strings.Cut(strings.TrimPrefix(name, prefix), "/"); ok && v.is(below) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return false
	}
	actor.Stop(system, actor.Local(system, found[rnd.IntN(len(found))]))
	return true
}
