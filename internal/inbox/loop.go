package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/internal/plain"
)

// ErrMaxInFlight refuses a further command that a handler sends along an edge
// of a loop: the pipeline holds as many commands as it may.
var ErrMaxInFlight = errors.New("stage: too many commands in flight; see pipeline.MaxInFlight")

// Commands on back edges are accepted beyond the capacity of an inbox;
// otherwise the stages of the loop could wait for one another. So a loop whose
// handlers add commands could grow for ever. The pipeline's MaxInFlight bounds
// the commands that handlers emit or submit along any edge of the loop. A
// forwarded command is in flight already and adds nothing.

// refill is the part of the free places that one count gives out. The rest
// covers what other edges bring in before the next count.
const refill = 8

// Allow takes a command off the allowance. It reports false if the pipeline
// holds as many commands as it may. It must not be called with an inbox's lock.
func (pl *Pipeline) Allow() bool {
	if pl.MaxInFlight <= 0 {
		return true
	}
	a := &pl.loops
	for {
		left := a.left.Load()
		if left == 0 {
			return pl.count()
		}
		if a.left.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

// count counts the commands in flight and takes a command off a fresh
// allowance.
func (pl *Pipeline) count() bool {
	a := &pl.loops
	a.counting.Lock()
	defer a.counting.Unlock()
	left := a.left.Swap(0)
	if left == 0 {
		free := int64(max(pl.MaxInFlight-pl.InFlight(), 0))
		left = min(free, max(free/refill, 1))
	}
	if left == 0 {
		return false
	}
	a.left.Store(left - 1)
	return true
}

// EdgesChanged notes that an edge was added or removed.
func (pl *Pipeline) EdgesChanged() { pl.edges.Add(1) }

// EdgesVersion changes with each edge that is added or removed.
func (pl *Pipeline) EdgesVersion() uint32 { return pl.edges.Load() }

// submitsInLoop reports whether ctx is the context of a handler whose stage is
// in a loop with this one.
func (in *Inbox) submitsInLoop(ctx context.Context) bool {
	pl := in.Pipeline()
	if !pl.looped.Load() {
		return false
	}
	h := handlerOf(ctx)
	return h != nil && pl.InLoop(h.Inbox(), in)
}

// BoundEntries makes commands from outside wait while half of MaxInFlight is in
// flight, so that loops have the other half. The capacity is the sum over all
// inboxes. If it is at most half of MaxInFlight, it is a bound by itself, and
// commands are not counted.
func (pl *Pipeline) BoundEntries(capacity int) {
	pl.looped.Store(true)
	if pl.MaxInFlight > 0 && capacity > pl.MaxInFlight/2 {
		pl.entry.Bound(max(pl.MaxInFlight/2, 1))
	} else {
		pl.entry.Bound(0)
	}
}

// LoopFull returns the error of a command that the pipeline has no place for.
func (in *Inbox) LoopFull() error {
	return plain.Wrap(fmt.Sprintf("stage %q", in.state.cfg.Name), fmt.Errorf("%w (%d)", ErrMaxInFlight, in.Pipeline().MaxInFlight))
}
