package actor

import proto "github.com/asynkron/protoactor-go/actor"

// SpawnUnregistered starts an actor as [Spawn] does, but does not register it as a child in protoactor's list, in which
// the first child takes some 680 bytes. The parent must keep a list of its own. It is notified of the actor's failures
// and end, and must [Adopt] the actors that are still running when it is asked to stop.
func SpawnUnregistered(parent Context, name string, box *Mailbox, make func() Actor) (*PID, error) {
	a := shielded(make())
	spawning.mu.Lock()
	defer spawning.mu.Unlock()
	spawning.actor, spawning.box = a, box
	defer spawning.clear()
	return proto.DefaultSpawner(parent.ActorSystem(), parent.Self().Id+"/"+name, spawning.props, parent)
}

// Adopt makes protoactor stop an actor of [SpawnUnregistered] when its parent stops, and wait for it. The parent calls
// Adopt when it handles [Stopping].
func Adopt(parent Context, child *PID) {
	born := func(*System, string, *proto.Props, proto.SpawnerContext) (*PID, error) { return child, nil }
	_, _ = parent.SpawnNamed(proto.PropsFromProducer(nil, proto.WithSpawnFunc(born)), "")
}
