package worker

import (
	"context"
	"slices"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
)

// emission is a command that leaves when its handler has returned. Its ticket,
// if it has one, waits for it from the moment at which it was emitted.
type emission struct {
	to   *outbox
	load any
	from *command.Origin
}

// settling is a call of a [link.Settler] to be made.
type settling struct {
	link.Settler

	use any
}

// emits is what the handler of one try has emitted and deferred. All of it
// belongs to the try: it leaves if the try succeeds, and is recalled if not.
// While a handler runs, which may emit from several goroutines, a lock of the
// owner guards it.
type emits struct {
	held     []emission // in the order in which they leave
	deferred []settling // calls to be made when it is decided how the try has ended
}

// hold adds an emitted command.
func (e *emits) hold(m emission) {
	m.from.Ticket().Join()
	e.held = append(e.held, m)
}

// unhold takes the last command back, which was not taken.
func (e *emits) unhold() {
	last := len(e.held) - 1
	m := e.held[last]
	e.held[last] = emission{}
	e.held = e.held[:last]
	m.settle()
}

// settle notes for the ticket of a command that the command does not leave.
func (m emission) settle() { m.from.Ticket().Settle(true, nil, nil) }

// release has the ticket wait for none of its commands. From now on they are as
// if they had been submitted. Commands of other tickets, which are learned of
// in another way, stay as they are.
func (e *emits) release(t *command.Ticket, pipeline any) {
	for i := range e.held {
		if m := &e.held[i]; m.from.Ticket() == t {
			m.settle()
			m.from = m.from.Alone(pipeline)
		}
	}
}

// clear forgets the commands, which have left.
func (e *emits) clear() {
	clear(e.held)
	e.held = e.held[:0]
}

// recall discards the commands: the try did not succeed.
func (e *emits) recall() {
	for _, m := range e.held {
		m.settle()
	}
	e.clear()
}

// send sends the commands in order, until one is not sent. That one and the
// ones behind it stay.
func (e *emits) send(ctx context.Context, one func(context.Context, emission) error) error {
	for i, m := range e.held {
		if err := one(ctx, m); err != nil {
			e.held = slices.Delete(e.held, 0, i)
			return err
		}
	}
	e.clear()
	return nil
}
