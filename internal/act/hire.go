package act

import "github.com/asynkron/protoactor-go/actor"

// Hire starts an actor as [Spawn] does, whose parent it is that keeps it: the parent hears of its
// failures and of its end, but is no father in protoactor's book, where the first child takes some
// 680 bytes. So a parent that has a list of its own anyway hires, and when it is told to stop it has to
// [Adopt] those who are there still.
func Hire(parent Context, name string, box *Mailbox, make func() Actor) (*PID, error) {
	a := shielded(make())
	cradle.mu.Lock()
	defer cradle.mu.Unlock()
	cradle.actor, cradle.box = a, box
	defer cradle.clear()
	return actor.DefaultSpawner(parent.ActorSystem(), parent.Self().Id+"/"+name, cradle.props, parent)
}

// Adopt has protoactor stop an actor that was hired when its parent stops, and wait for it. It is
// called by the parent when it handles [Stopping].
func Adopt(parent Context, child *PID) {
	born := func(*System, string, *actor.Props, actor.SpawnerContext) (*PID, error) { return child, nil }
	_, _ = parent.SpawnNamed(actor.PropsFromProducer(nil, actor.WithSpawnFunc(born)), "")
}
