package line

import "github.com/golda-dev/golda/internal/command"

// A worker of a fair line counts as a handler of each key of its batch until
// the batch is done and its results have been handed over: a key whose results
// find no free slots ahead keeps no more workers waiting than it may have. If
// handlers suspend, each command that was given out counts, from then on until
// it has ended, whichever workers handle it, or is in the line again. Without
// a bound none is counted.

func (f *fair) holdByCommand() { f.byOne = f.atOnce > 0 }

// Give gives the lanes that were taken last to a worker or, if each command
// counts, to the last commands of its batch of n.
func (f *fair) Give(p *Part, n int) *Part {
	if f.atOnce == 0 {
		return p
	}
	return f.give(p, n)
}

// Free ends the handlers of a worker's batch, or of its commands that have
// ended.
func (f *fair) Free(p *Part) {
	for _, ln := range p.lanes {
		f.free(ln)
	}
	clear(p.lanes)
	p.lanes = p.lanes[:0]
	f.freeEnded(p, f.free)
}

// free ends a handler of a key.
func (f *fair) free(ln *Lane) {
	ln.handlers--
	f.update(ln)
}

// Block books that a command waits for its next try: no handler has it.
func (f *fair) Block(r Rank) {
	ln := f.Of(r)
	ln.delayed++
	if f.byOne {
		ln.handlers--
	}
	f.update(ln)
}

// Unblock books that the next try of a command is due. It is pushed as any
// command.
func (f *fair) Unblock(_ command.Envelope, r Rank) bool {
	f.Release(r)
	return false
}

// Release gives back the places of commands that wait for their next try.
func (f *fair) Release(ranks ...Rank) {
	for _, r := range ranks {
		ln := f.Of(r)
		ln.delayed = max(ln.delayed-1, 0) // the stage has ended the rest of a batch, and gives out no more
		f.Vacate(ln)
		f.update(ln)
	}
}
