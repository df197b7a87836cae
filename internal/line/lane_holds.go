package line

import (
	"slices"

	"github.com/golda-dev/golda/internal/command"
)

// A worker of a keyed stage holds the lanes of its batch until the batch is
// done and its results have been handed over.
//
// If handlers suspend, a lane is not held by a worker, but by its one command
// that was given out. The command holds the lane until it has ended and its
// results have been handed over, by whichever worker; or until it waits for
// another try, and then it blocks the lane as in any keyed stage; or until it
// returns to the queue unstarted. Suspending and waking do not change this. So
// a lane is free as soon as its command is done, whatever else its worker has
// to do.

// HoldByCommand has the commands of a line with lanes hold them, because
// handlers may suspend. It is called while the line is empty.
func HoldByCommand(l Line) {
	if l, ok := l.(interface{ holdByCommand() }); ok {
		l.holdByCommand()
	}
}

func (l *lanes) holdByCommand() { l.byOne = l.keyed }

// Give gives the lanes that were taken last to a worker or, if commands hold
// lanes, to the last commands of its batch of n.
func (l *lanes) Give(p *Part, n int) *Part {
	if !l.keyed {
		return p
	}
	return l.give(p, n)
}

// Free ends the hold on lanes of a worker, or of its commands that have ended.
func (l *lanes) Free(p *Part) {
	for _, ln := range p.lanes {
		if ln.held = false; ln.again == 0 {
			l.update(ln)
		}
	}
	for _, ln := range slices.Backward(p.lanes) { // so that the first comes first
		l.update(ln)
	}
	clear(p.lanes)
	p.lanes = p.lanes[:0]
	l.freeEnded(p, func(ln *Lane) {
		ln.held = false
		l.update(ln)
	})
}

// Block keeps a lane until the next try of one of its commands. A worker holds
// the lane, or has taken its commands from it, or the command held it until
// now.
func (l *lanes) Block(r Rank) {
	if !l.keyed {
		return
	}
	ln := l.Of(r)
	ln.blocked = true
	ln.again = 0
	ln.held = ln.held && !l.byOne
}

// Unblock puts the command whose next try is due at the front of its lane.
func (l *lanes) Unblock(e command.Envelope, r Rank) bool {
	if !l.keyed {
		return false
	}
	ln := l.Of(r)
	ln.blocked = false
	ln.again = 0
	ln.held = ln.held && !l.byOne
	ln.ring.PushFront([]command.Envelope{e})
	l.added(ln, 1)
	return true
}

// Release ends the blocks of lanes.
func (l *lanes) Release(ranks ...Rank) {
	if !l.keyed {
		return
	}
	for _, r := range ranks {
		ln := l.Of(r)
		ln.blocked = false
		l.Vacate(ln)
		l.update(ln)
	}
}
