package actor

import (
	"github.com/asynkron/protoactor-go/extensions"
)

// Pace decides when the actors of a system handle their messages, and in which
// order. It is for tests that try different orders. Without a Pace, a mailbox
// that has a message runs on a goroutine of its own until it is empty.
type Pace interface {
	// Ready is called by any goroutine when a mailbox has a message. It is
	// called again only after [Mailbox.Step] was called.
	Ready(m *Mailbox)
	// Apart is called by any goroutine when a suspended handler is woken by an
	// event that has no place in the order of messages: by a timer, or by an
	// awaited event. The arguments are the stage, the command's number there,
	// and a function that continues the command.
	Apart(stage string, number uint64, goOn func())
}

var paces = extensions.NextExtensionID()

type paced struct{ Pace }

// ExtensionID returns the place in the system's list of extensions.
func (paced) ExtensionID() extensions.ExtensionID { return paces }

// SetPace sets the pace of a system's actors. It must be called before the
// first is spawned.
func SetPace(s *System, p Pace) { s.Extensions.Register(paced{p}) }

// Apart returns the Apart of a system's [Pace], or nil if it has none.
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

// Step delivers one message of a mailbox that its [Pace] was notified of. A
// handler may block, or end the goroutine.
func (m *Mailbox) Step() { m.process() }

// Name returns the name of the mailbox's actor, empty before it is spawned.
func (m *Mailbox) Name() string {
	if ctx, ok := m.invoker.(Context); ok {
		return ctx.Self().Id
	}
	return ""
}

// Stepped reports whether a [Pace] decides about each message, so that a turn
// should be short.
func (m *Mailbox) Stepped() bool { return m.paced }
