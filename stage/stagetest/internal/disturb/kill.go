// Package disturb has the disturbances that a trial of package stagetest and
// the random plans of package chaos have in common: it kills actors, and shakes
// settings.
package disturb

import (
	"math/rand/v2"
	"strings"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
)

// Actor is a kind of actor that can be killed.
type Actor uint8

// The kinds of actors.
const (
	Worker      Actor = iota // a worker
	Supervisor               // the supervisor of a stage
	ControlLoop              // the control loop
	Pool                     // the supervisor of a shared pool, or of a stage that was added
	Feed                     // an actor of a feed
)

// Kill stops a random actor of the kind in the pipeline of that name. It stops
// the actor from outside, without its supervisor's knowledge, as a bug in the
// code of an actor might. It reports false if there is none.
func Kill(pipeline string, kind Actor, rnd *rand.Rand) bool {
	system := oracle.System()
	var found []string
	for _, name := range Actors(pipeline) {
		if _, below, ok := strings.Cut(strings.TrimPrefix(name, prefix(pipeline)), "/"); ok && kind.has(below) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return false
	}
	actor.Stop(system, actor.Local(system, found[rnd.IntN(len(found))]))
	return true
}

// has reports whether the actor of that name, which is relative to the
// pipeline's, is of the kind.
func (a Actor) has(name string) bool {
	parts := strings.Split(name, "/")
	last := parts[len(parts)-1]
	special := strings.HasPrefix(parts[0], "(")
	switch a {
	case Worker:
		return strings.HasPrefix(last, "worker-")
	case Supervisor:
		return len(parts) == 1 && !special && strings.Contains(last, "$")
	case ControlLoop:
		return len(parts) == 1 && strings.HasPrefix(last, "(controllers)")
	case Pool:
		return len(parts) == 2 && parts[0] == "(pools)"
	case Feed:
		return strings.HasPrefix(parts[0], "feed$")
	default:
		return false
	}
}

// Actors returns the names of the actors of the pipeline of that name.
func Actors(pipeline string) []string { return actor.Processes(oracle.System(), prefix(pipeline)) }

// prefix returns the prefix of the names of a pipeline's actors.
func prefix(pipeline string) string { return "golda/" + pipeline + "$" }
