package act

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// cradle holds the actor that is being spawned. An actor keeps its props for all its life, and uses them only once, to
// make an actor and a mailbox. So all actors share the same props, which take the actor and the mailbox from the
// cradle. Props of its own would cost each actor some 250 bytes.
var cradle = func() *crib {
	c := &crib{}
	c.props = actor.PropsFromProducer(func() Actor { return c.actor },
		actor.WithMailbox(func() actor.Mailbox { return c.box }))
	return c
}()

type crib struct {
	props *actor.Props

	mu    sync.Mutex // guards all fields below
	actor Actor
	box   *Mailbox
}

func (c *crib) clear() { c.actor, c.box = nil, nil }
