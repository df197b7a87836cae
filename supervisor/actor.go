package supervisor

import "github.com/golda-dev/golda/internal/act"

type (
	// Actor handles messages one at a time. It is protoactor's.
	Actor = act.Actor
	// Context is what an actor knows while it handles a message.
	Context = act.Context
)

// SpawnActor starts an actor, for [Child.Spawn]: with a mailbox that loses and revives nothing,
// and so that a panic when it is told of its end is a failure like any other. One that is started
// otherwise, by protoactor's own props, and panics then is only let go by its patience.
func SpawnActor(by Spawner, name string, make func() Actor) (*PID, error) {
	return act.Spawn(by, name, act.NewMailbox(nil), make)
}

// Fail has the actor whose context it is end with a reason: [ErrNormal] if it has come to its
// end, or an error that a panic would be too loud for. Its supervisor decides what follows.
func Fail(ctx Context, reason error) { act.Fail(ctx, reason) }
