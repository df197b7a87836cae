package act

import "github.com/asynkron/protoactor-go/actor"

// Hire starts an actor as [Spawn] does, but does not register it as a child in protoactor's list, in which the first
// child takes some 680 bytes. The parent must keep a list of its own. It is notified of the actor's failures and end,
// and must [Adopt] the actors that are still running when it is asked to stop.
func Hire(parent Context, name string, box *Mailbox, make func() Actor) (*PID, error) {
	a := shielded(make())
	cradle.mu.Lock()
	defer cradle.mu.Unlock()
	cradle.actor, cradle.box = a, box
	defer cradle.clear()
	return actor.DefaultSpawner(parent.ActorSystem(), parent.Self().Id+"/"+name, cradle.props, parent)
}

// Adopt makes protoactor stop a hired actor when its parent stops, and wait for it. The parent calls it when it handles
// [Stopping].
func Adopt(parent Context, child *PID) {
	born := func(*System, string, *actor.Props, actor.SpawnerContext) (*PID, error) { return child, nil }
	_, _ = parent.SpawnNamed(actor.PropsFromProducer(nil, actor.WithSpawnFunc(born)), "")
}
