package act

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// cradle holds what is being spawned. An actor keeps the props that it was made by for all
// its life, and asks them for an actor and a mailbox once; so they are the same for all,
// and whom they make lies here for that moment. Props of its own would cost each actor
// some 250 bytes.
var cradle = func() *crib {
	c := &crib{}
	c.props = actor.PropsFromProducer(func() Actor { return c.actor },
		actor.WithMailbox(func() actor.Mailbox { return c.box }))
	return c
}()

type crib struct {
	props *actor.Props

	mu    sync.Mutex // guards all below
	actor Actor
	box   *Mailbox
}

func (c *crib) clear() { c.actor, c.box = nil, nil }
