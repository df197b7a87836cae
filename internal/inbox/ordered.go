package inbox

import (
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
)

// Ordered reports whether the results of the stage's commands leave in the
// order of their arrival.
func (in *Inbox) Ordered() bool { return in.state.cfg.Ordered }

// TakeResults books what a worker of an ordered stage did, and returns, behind
// what the slice has, results that may leave the stage now. If there are any
// the worker is the only one that gets them, until it has handed all of them
// over and asks again.
func (in *Inbox) TakeResults(m *Member, t *Tally, into []line.Result) []line.Result {
	var fx effects
	in.mu.Lock()
	in.state.book(m, t, &fx)
	before := in.state.takeable()
	into = in.state.queue.line.Leave(m.Part, into)
	if in.state.takeable() > before {
		in.state.callWorker(&fx)
	}
	in.state.checkQuiet(&fx)
	in.unlock(&fx)
	return into
}

// Flush hands over the results that may leave a halted inbox, since there may
// be no worker to do so. The stages ahead take them, whether they have free
// slots or not.
func (in *Inbox) Flush() {
	if !in.Ordered() {
		return
	}
	leaver := new(line.Part)
	for {
		in.mu.Lock()
		leaving := in.state.queue.line.Leave(leaver, nil)
		in.mu.Unlock()
		if len(leaving) == 0 {
			return
		}
		for _, r := range leaving {
			r.To.Inbox().(*Inbox).HandOver(nil, []command.Envelope{r.Envelope}, 0, true, false)
		}
	}
}
