package act

import (
	"github.com/asynkron/protoactor-go/extensions"
)

// Pace decides when the actors of a system handle their messages, and in which order: a
// test that walks through the orders does. Without one, a mailbox that has a message
// runs on a goroutine of its own until it is empty.
type Pace interface {
	// Ready is told, by any goroutine, that a mailbox has a message. It is told again
	// only when [Mailbox.Step] has been called.
	Ready(m *Mailbox)
	// Apart is told, by any goroutine, that a command whose handler was suspended was woken by a
	// timer, or by what it awaited: by something that has no place in the order of messages. It is
	// the command of that number at a stage, and goes on when goOn is called.
	Apart(stage string, number uint64, goOn func())
}

var paces = extensions.NextExtensionID()

type paced struct{ Pace }

// ExtensionID is for the system's list of extensions.
func (paced) ExtensionID() extensions.ExtensionID { return paces }

// SetPace sets the pace of a system's actors. It is called before the first is spawned.
func SetPace(s *System, p Pace) { s.Extensions.Register(paced{p}) }

// Apart is that of a system's [Pace], nil if it has none.
func Apart(s *System) func(stage string, number uint64, goOn func()) {
	if p := paceOf(s); p != nil {
		return p.Apart
	}
	return nil
}

func paceOf(s *System) Pace {
	if p, ok := s.Extensions.Get(paces).(paced); ok {
		return p.Pace
	}
	return nil
}

// Step delivers one message of a mailbox that its [Pace] was told of. A handler may block, or
// end the goroutine.
func (m *Mailbox) Step() { m.process() }

// Name is the name of the actor whose mailbox it is, empty before it is spawned.
func (m *Mailbox) Name() string {
	if ctx, ok := m.invoker.(Context); ok {
		return ctx.Self().Id
	}
	return ""
}

// Stepped reports whether somebody decides about each message, so that a turn should be
// short.
func (m *Mailbox) Stepped() bool { return m.paced }
