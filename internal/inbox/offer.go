package inbox

import (
	"context"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/gate"
)

// Offer is [Inbox.Submit] for a caller that must not wait, such as a simulator,
// whose goroutine is also the one that makes slots free. A command that finds
// no free slot, where the overflow rule is [Wait] or waits is true, gets a
// place in the line of the submitters, and the inbox queues it when its turn
// comes. No caller waits with it, and none is told. A command that exceeds the
// limit of the pipeline's entry is refused whatever the rule is, because only a
// goroutine can wait there.
func (sn Senders) Offer(e *command.Envelope, waits bool) error {
	in := sn.in
	sub := submission{at: in.state.queue.place(e.Load), by: submitter{asked: true}}
	for _, rules := range [...]*gate.Rules{&in.Pipeline().entry.Rules, &in.rules} {
		if sub.why, sub.refused = rules.Admit((*door)(in), *e); sub.refused != nil {
			break
		}
	}
	if pl := in.Pipeline(); sub.refused == nil {
		var entered bool
		entered, sub.why, sub.refused = pl.entry.Enter(context.Background(), hasty{(*door)(in)}, pl.flight())
		if entered {
			defer pl.entry.Entered()
		}
	}
	for {
		var fx effects
		in.mu.LockForSubmitter()
		err := in.state.offer(e, &sub, waits, &fx)
		in.unlock(&fx)
		if err != errLook { //nolint:errorlint // it is never wrapped
			return err
		}
		in.endLapsed()
	}
}

// offer takes a command, refuses it, or puts it into the line for a free slot.
func (s *state) offer(e *command.Envelope, sub *submission, waits bool, fx *effects) error {
	if waits && sub.refused == nil && s.phase() == open && !s.knobs.Disabled {
		if !s.enterFree(e, sub.at, fx) {
			s.awaitSlot(entrant{e: *e, at: sub.at}, false, false)
		}
		return nil
	}
	_, err := s.enter(e, sub, fx)
	return err
}

// hasty is a door at which no caller waits.
type hasty struct{ *door }

// MayWait returns false.
func (hasty) MayWait(context.Context) bool { return false }
