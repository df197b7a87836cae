package inbox

import (
	"slices"

	"github.com/golda-dev/golda/stage/queue"
)

// In a keyed stage whose handlers suspend it is not a worker that holds a lane, but the one command of it that was given out: until
// nothing more comes of the command and what came of it has been handed over, by whichever worker that is; until it is to be
// tried again, and then it blocks the lane as in any keyed stage; or until it comes back unstarted. That a handler is suspended
// and woken changes nothing. So a lane is free as soon as its command is done, whatever else its worker has to do.

// Hold is a command's hold on the lane of its key. The zero Hold is none.
type Hold struct {
	lane *lane
	key  queue.Key
}

// Holds is what a worker knows of the holds of its batch. Only the worker touches it. A command is known by its index in the
// batch.
type Holds struct {
	of    []Hold
	ended []Hold // of commands of which nothing more comes; what came of them may not have been handed over
}

// HoldsOf returns the holds of a batch that was not given out by the inbox: that of one command.
func HoldsOf(h Hold) *Holds { return &Holds{of: []Hold{h}} }

// Of returns the hold of a command; none if it was suspended and its run knows the hold.
func (h *Holds) Of(i int32) Hold { return h.of[i] }

// Set sets the hold of a command that was suspended.
func (h *Holds) Set(i int32, one Hold) { h.of[i] = one }

// End notes that nothing more comes of a command, unless it is to be tried again. Its hold ends with the worker's next turn for
// which it has handed over all that it had.
func (h *Holds) End(i int32) {
	if h.of[i].lane != nil {
		h.ended = append(h.ended, h.of[i])
	}
}

// before returns the index of the command before the last ones of the batch.
func (h *Holds) before(last int) int32 { return int32(len(h.of) - last - 1) }

// key returns the key of that command.
func (h *Holds) key(last int) queue.Key { return h.of[h.before(last)].key }

// last returns the keys of the last commands of the batch, without those that were suspended.
func (h *Holds) last(many int) []queue.Key {
	keys := make([]queue.Key, 0, many)
	for _, one := range h.of[len(h.of)-many:] {
		if one.lane != nil {
			keys = append(keys, one.key)
		}
	}
	return keys
}

// tell tells a worker what the commands of its batch of n hold. The first ones may be commands that were suspended, whose holds
// their runs know.
func (l *lanes) tell(h *Holds, n int) {
	h.of = slices.Grow(h.of[:0], n)[:n]
	clear(h.of)
	for i, ln := range l.taken {
		h.of[n-len(l.taken)+i] = Hold{ln, ln.key}
	}
	clear(l.taken)
	l.taken = l.taken[:0]
}

// freeEnded ends the holds of a worker's commands of which nothing more comes.
func (l *lanes) freeEnded(h *Holds) {
	for _, one := range h.ended {
		one.lane.held = false
		l.update(one.lane)
	}
	clear(h.ended)
	h.ended = h.ended[:0]
}
