package inbox

import (
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/stage/reason"
)

// A key is parked when one of its commands has ended with an error or a crash
// and leaves a letter: its other commands wait, in order, until the letter has
// left its store. If the letter is retried, its command comes first, before all
// that wait. So no command of a key overtakes one that has failed.
//
// A key is parked in the step that books the failure, before the letter is
// kept, so that no other worker takes a command of the key in between. The
// letter has the hold on the key, a [Park], and ends it when it leaves.

// park parks the key of a place; nil if it has none. A drain looks whether it
// can end.
func (s *state) park(at place, fx *effects) *Park {
	ln := line.ParksOf(s.queue.line).Park(at.rank)
	if ln == nil {
		return nil
	}
	fx.quiet, fx.some = true, true
	return &Park{in: s.self, lane: ln}
}

// Parks reports whether keys are parked.
func (st Settings) Parks() bool { return st.in.state.queue.parks }

// ParksFor reports whether the key of a command is parked that has failed or
// crashed. It is not if the command leaves no letter, nor if the source of the
// command deals with its end: the source delivers the command again.
func (b Batches) ParksFor(e *command.Envelope, crashed bool) bool {
	return b.in.state.queue.parks && !e.Ticket().Heard() && (crashed || !b.in.answers(e, reason.Error))
}

// ParkKey parks the key of a command whose letter is there already; nil if the
// command has no key. It calls user code.
func (st Settings) ParkKey(load any) (p *Park) {
	at := st.in.state.queue.place(load)
	st.in.transition(func(s *state, fx *effects) {
		p = s.park(at, fx)
		s.changed(fx)
	})
	return p
}

// Waiting returns how many commands wait for the key.
func (p *Park) Waiting() int {
	if p == nil {
		return 0
	}
	return ask(p.in, func(s *state) int { return line.ParksOf(s.queue.line).WaitingAt(p.lane) })
}

// Of reports whether the key is one of an inbox.
func (p *Park) Of(in *Inbox) bool { return p != nil && p.in == in }

// End ends the hold: the key goes on unless another letter holds it.
func (p *Park) End() {
	if p == nil || p.ended.Swap(true) {
		return
	}
	p.in.transition(func(s *state, fx *effects) {
		line.ParksOf(s.queue.line).Unpark(p.lane)
		s.changed(fx)
		s.checkQuiet(fx)
	})
}
