package inbox

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage/reason"
)

func (in *Inbox) ending(e *command.Envelope, why reason.Reason, err error, at time.Time) Ending {
	return Ending{Inbox: in, Cmd: e.Command(), Reason: why, Err: err, Tries: e.Tries(), At: at, From: 1 + e.Emitter(),
		Heard: e.Ticket().Heard(), ComesAgain: e.From.ComesAgain(in.Pipeline())}
}

// report reports commands that ended unanswered. For each, the letter is kept
// before the ticket is settled: a caller that learns of the end may look for
// the letter. Subscribers come last; they may take their time.
func (in *Inbox) report(x endings) {
	pl, now := in.Pipeline(), time.Now()
	ends := make([]Ending, 0, 8)
	for i := range x.es {
		e := &x.es[i]
		end := in.ending(e, x.why, x.err, now)
		if end.Answered = in.answers(e, x.why); end.Answered {
			pl.answered.Add(1)
		}
		end.Letter = pl.keep(end)
		ends = append(ends, end)
		e.Ticket().Settle(e.Child(), nil, x.err)
	}
	for _, end := range ends {
		pl.Ended(end)
	}
	pl.deadLettered.Add(uint64(len(x.es)))
}

// answers reports whether the end of a command leaves no letter, because a
// caller has both the command and the error: the caller that submitted it with
// a ticket, if the command was not tried again in vain. A command leaves no
// letter either if its caller's context has ended, because the caller has given
// up the command and all commands that it led to. A crash is a fault of the
// program, and leaves a letter in any case. A hard stop leaves one, too,
// because it often ends the caller, unless the source of the command keeps it.
func (in *Inbox) answers(e *command.Envelope, why reason.Reason) bool {
	t := e.Ticket()
	switch {
	case t == nil || t.Watches() || why == reason.Crash || why == reason.Stopped && !t.Heard():
		return false
	default:
		return !e.Child() && !in.usedUp(e) || e.From.Ended() != nil
	}
}

// keep has the pipeline keep a letter, and returns its number; 0 if it is not
// kept.
func (pl *Pipeline) keep(e Ending) (letter uint64) {
	if pl.Keep == nil {
		return 0
	}
	return pl.Keep(e)
}

// ReportLost reports a message that was no command yet: there is no ticket for
// it.
func (pl *Pipeline) ReportLost(e Ending) {
	e.At = time.Now()
	e.Letter = pl.keep(e)
	pl.Ended(e)
}

// DeadLettered returns how many of the commands that the accounts have as shed
// or dead-lettered were reported.
func (pl *Pipeline) DeadLettered() uint64 { return pl.deadLettered.Load() }

// Answered returns how many of the commands that DeadLettered counts left no
// letter, because a caller was answered.
func (pl *Pipeline) Answered() uint64 { return pl.answered.Load() }

// Settles reports whether commands that wait are being ended because they have
// lapsed. They are booked, and not all of their tickets have ended.
func (pl *Pipeline) Settles() bool { return pl.settling.Load() > 0 }

// Answer settles the ticket of a command that ended with an error, if there is
// one.
func (in *Inbox) Answer(e *command.Envelope, err error) {
	if t := e.Ticket(); t != nil {
		t.Settle(e.Child(), nil, plain.Wrap(fmt.Sprintf("stage %q", in.state.cfg.Name), err))
	}
}

// Fail reports a command that ended with an error and is booked as such. It
// leaves a letter unless a caller is answered.
func (in *Inbox) Fail(e *command.Envelope, err error) {
	if in.answers(e, reason.Error) {
		in.Answer(e, err)
		return
	}
	pl := in.Pipeline()
	end := in.ending(e, reason.Error, err, time.Now())
	end.Letter = pl.keep(end)
	in.Answer(e, err)
	pl.Ended(end)
}

// usedUp reports whether a command was tried again, and as often as it may be.
func (in *Inbox) usedUp(e *command.Envelope) bool {
	most := in.state.cfg.Retry.Attempts
	return most > 1 && e.Tries() >= most
}

// RefuseNew reports a command that a handler could not emit within a loop. It
// was not accepted, so the accounts count it as rejected, and it leaves a
// letter.
func (in *Inbox) RefuseNew(load any, err error) {
	in.mu.Lock()
	_ = in.state.refuse(reason.MaxInFlight, nil)
	in.mu.Unlock()
	in.Pipeline().ReportLost(Ending{Inbox: in, Cmd: link.Bare(load), Reason: reason.MaxInFlight, Err: err})
}

// Tickets counts the queued and delayed commands that a caller waits for. It
// reads each of them under the lock, so it is for reports. Commands in workers'
// batches belong to the workers: to read them would be a race.
func (in *Inbox) Tickets() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.count(func(e *command.Envelope) bool { return e.Ticket() != nil && !e.Ticket().Watches() })
}

// Has reports whether so is true of a command that is queued, waits for its
// next try or is in a worker's batch. It reads each of them under the lock, so
// it is for reports. Of handlers that may suspend it does not see the commands
// under way.
func (in *Inbox) Has(so func(*command.Envelope) bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.state.count(so) > 0 {
		return true
	}
	for m := in.state.holding; m != nil; m = m.custody.behind {
		for i := max(len(m.custody.copies)-int(m.custody.inHand), 0); i < len(m.custody.copies); i++ {
			if so(&m.custody.copies[i]) {
				return true
			}
		}
	}
	return false
}
