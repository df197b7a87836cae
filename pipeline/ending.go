package pipeline

import (
	"errors"
	"fmt"
	"os"

	"github.com/golda-dev/golda/internal/inbox"
)

// Ending says how a pipeline ended. At most one of Signal, GaveUp and Exhausted
// is set; if the pipeline has ended and none is, the program stopped it:
// [Pipeline.Stop] was called, or the context of Run ended.
type Ending struct {
	// Ended is false for a pipeline that was not stopped, or is still stopping:
	// [Pipeline.Done] is open. It is false, too, if Run was called with a
	// context that had ended: nothing was started, and the pipeline may be run
	// again.
	Ended bool
	// Signal is the signal that stopped the pipeline: see
	// [Pipeline.RunUntilSignal].
	Signal os.Signal
	// GaveUp is true if the pipeline could not start, or could not go on:
	// [Pipeline.Err] says why.
	GaveUp bool
	// Exhausted is true if [Pipeline.Run] ended the pipeline because all its
	// feeds were exhausted, and all was drained: see [Feed].
	Exhausted bool
}

// String returns "not ended", "stopped", "exhausted", "interrupted" or "gave
// up".
func (e Ending) String() string {
	switch {
	case !e.Ended:
		return "not ended"
	case e.GaveUp:
		return "gave up"
	case e.Signal != nil:
		return "interrupted"
	case e.Exhausted:
		return "exhausted"
	default:
		return "stopped"
	}
}

// signalError is why a pipeline did not start, or stopped hard: the process got
// a signal.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("signal: %v", e.signal) }

// Ending returns how the pipeline ended. It says what ended the pipeline, while
// the error of Run or Stop says whether all was done. A signal that arrives
// when the program has already called Stop is the ending's Signal only if it
// ended the drain.
func (p *Pipeline) Ending() Ending {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	_, bySignal := errors.AsType[*signalError](p.life.failure)
	switch {
	case p.life.state != stopped:
		return Ending{}
	case p.life.failure != nil && !bySignal:
		return Ending{Ended: true, GaveUp: true}
	default:
		return Ending{Ended: true, Signal: p.life.signal, Exhausted: p.life.fedUp && p.life.signal == nil}
	}
}

// exhaust notes that the pipeline ends because its feeds are exhausted, unless
// it is being stopped already.
func (p *Pipeline) exhaust() {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	p.life.fedUp = p.life.state == running
}

// interrupt sets the signal that stops the pipeline. If the pipeline stops
// already, the signal counts only if it is hard, that is, if it ends the drain.
func (p *Pipeline) interrupt(s os.Signal, hard bool) {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	if p.life.state < stopping || hard && p.life.state == stopping {
		p.life.signal = s
	}
}

// wasDone reports whether a command that has ended with an error was done all
// the same: it was not if a hard stop ended it.
func (p *Pipeline) wasDone(err error) bool {
	return err == nil || p.life.halting.Err() == nil && !errors.Is(err, inbox.ErrStopped)
}

// atRest reports whether no stage has commands except commands that it holds in
// windows. If two calls return true and the same number, nothing has happened
// between them.
func (p *Pipeline) atRest() (number uint64, ok bool) {
	inboxes := p.stages().all
	accounts := inbox.Counts(inboxes)
	if underWay(accounts) {
		return 0, false
	}
	for i := range accounts {
		a := &accounts[i]
		if _, ok := rests(inboxes[i], a); !ok {
			return 0, false
		}
		number += happened(&a.Counts)
	}
	return number, true
}
