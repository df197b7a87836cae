package actor

import (
	"sync"

	proto "github.com/asynkron/protoactor-go/actor"
)

// spawning holds the actor that is being spawned. An actor keeps its props for all its life, and uses them only once, to
// make an actor and a mailbox. So all actors share the same props, which take the actor and the mailbox from it.
// Props of its own would cost each actor some 250 bytes.
var spawning = func() *spawnSlot {
	c := &spawnSlot{}
	c.props = proto.PropsFromProducer(func() Actor { return c.actor },
		proto.WithMailbox(func() proto.Mailbox { return c.box }))
	return c
}()

type spawnSlot struct {
	props *proto.Props

	mu    sync.Mutex // guards all fields below
	actor Actor
	box   *Mailbox
}

func (c *spawnSlot) clear() { c.actor, c.box = nil, nil }
