package supervisor

import "github.com/golda-dev/golda/internal/actor"

// The types of protoactor that a child made of an actor needs. Programs that do
// not use protoactor need none of them.
type (
	// Actor handles messages one at a time. It is protoactor's interface.
	Actor = actor.Actor
	// Context is an actor's view of the system while it handles a message.
	Context = actor.Context
	// PID is an actor's address.
	PID = actor.PID
	// Spawner starts actors.
	Spawner = actor.Spawner
)

// SpawnActor starts an actor, for [Child.Spawn]. Its mailbox loses no message
// and never resumes a crashed actor, and a panic while the actor handles its
// stop is a failure like any other. An actor that is started in another way,
// with protoactor's own props, and panics there is only given up when its
// patience ends.
func SpawnActor(by Spawner, name string, make func() Actor) (*PID, error) {
	return actor.Spawn(by, name, actor.NewMailbox(nil), make)
}

// Fail ends the actor that ctx belongs to, with a reason: [ErrNormal] if it has
// finished its work, or an error that does not deserve a panic. The actor's
// supervisor decides whether to restart it.
func Fail(ctx Context, reason error) { actor.Fail(ctx, reason) }
