package stagetest

import (
	"math/rand/v2"
	"strings"

	"github.com/golda-dev/golda/internal/act"
)

// Victim is a kind of actor that a trial can kill. Killing stops the actor from outside,
// without its supervisor's knowledge, as a bug in somebody's actor might.
type Victim uint8

// The victims.
const (
	Worker   Victim = iota // one that runs handlers
	Keeper                 // the actor of a stage: the supervisor of its workers
	Clerk                  // the controllers' actor
	Pools                  // the supervisor of shared pools, and of stages that were added
	PoolsOwn               // one pool's keeper below that
	victims
)

var victimNames = [victims]string{"worker", "keeper", "clerk", "pools", "pool's keeper"}

// String returns the victim in a word or two.
func (v Victim) String() string {
	if v < victims {
		return victimNames[v]
	}
	return "nobody"
}

// is reports whether an actor is a victim of a kind, by its name below the pipeline's.
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

// kill stops one actor of a kind below a prefix, which one is left to chance. It reports
// false if there is none.
func kill(system *act.System, prefix string, v Victim, rnd *rand.Rand) bool {
	var found []string
	for _, name := range act.Processes(system, prefix) {
		if _, below, ok := strings.Cut(strings.TrimPrefix(name, prefix), "/"); ok && v.is(below) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return false
	}
	act.Stop(system, act.Local(system, found[rnd.IntN(len(found))]))
	return true
}
