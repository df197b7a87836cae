package worker

import "github.com/golda-dev/golda/internal/command"

// executorOf returns the executor for the handlers of an instance.
func (s *Stage) executorOf(inst instance) executor {
	switch {
	case s.Calls != nil:
		return relayed{}
	case s.Runs != nil:
		return coroutines{}
	case inst.Many():
		return many{}
	case s.Timeout > 0:
		return limited{}
	case s.mayExpire(), s.Inbox.Keyed(), s.Inbox.Pipeline().Follows, inst.Saved() != nil:
		return stepwise{}
	default:
		return each{}
	}
}

// each handles one command after the other in the loop of the instance, which
// costs one indirect call for a command.
type each struct{ single }

// stepwise handles one command after the other in a loop of the worker: between
// two commands it looks whether the next one has expired, whether a keyed stage
// has taken back the rest of the batch, and whether a state is to be saved, and
// it says which command is begun.
type stepwise struct{ single }

// limited is stepwise with a time limit for each command.
type limited struct{ single }

// many handles a batch with one call of the handler.
type many struct{ single }

// coroutines runs each command of a batch on a coroutine, until it ends or
// suspends.
type coroutines struct{ single }

// relayed is for a stage that runs in another process. It starts the commands
// that [Stage.Calls] selects as runs, and has the instance send the others
// together. A call that is suspended ends outside the workers, so it does not
// wait until the others are sent.
type relayed struct{ many }

// single is how all executors behave that know which command is handled.
type single struct{}

// charge charges the present command.
func (single) charge(w *Worker, batch []command.Envelope) (culprit *command.Envelope, rest []command.Envelope) {
	return &batch[w.progress.cur], batch[w.progress.cur+1:]
}

func (single) refusesEmit() error { return nil }

// takesMore reports true if further commands may lead to a stage that is not
// full, until the worker carries as many commands as its own stage has slots.
// A worker that takes its commands one by one does not: a handler may wait for
// a command that an earlier handler forwarded.
func (single) takesMore(w *Worker) bool {
	own := w.stage.Inbox
	if w.out.numbers != nil {
		return false // no other worker hands over meanwhile
	}
	return w.pool == nil && own.Forks() && own.Config().Batch > 1 && int(w.out.loaded) < own.Config().Capacity
}
