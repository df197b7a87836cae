package inbox

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/command"
)

// ErrMaxInFlight refuses a command on a back edge, which closes a loop: the pipeline holds as many commands as it may.
var ErrMaxInFlight = errors.New("stage: too many commands in flight; see pipeline.MaxInFlight")

// Commands on back edges are let in beyond the capacity of an inbox, for otherwise the stages of the loop could wait for one
// another. The pipeline's MaxInFlight bounds what they add.

// allowance is how many commands may still come in along back edges before the commands in flight are counted again. To count
// them takes the lock of every inbox, so each count covers many commands.
type allowance struct {
	left atomic.Int64

	counting sync.Mutex // one goroutine counts at a time
}

// refill is the part of the free places that one count gives out. The rest covers what other edges bring in before the next
// count.
const refill = 8

// Allow takes up to n commands off the allowance and returns how many: fewer than n if the
// pipeline holds as many as it may. It must not be called with an inbox's lock.
func (pl *Pipeline) Allow(n int) int {
	if pl.MaxInFlight <= 0 {
		return n
	}
	a := &pl.loops
	for {
		left := a.left.Load()
		if left < int64(n) {
			return pl.count(n)
		}
		if a.left.CompareAndSwap(left, left-int64(n)) {
			return n
		}
	}
}

// count counts the commands in flight and takes up to n off a fresh allowance.
func (pl *Pipeline) count(n int) int {
	a := &pl.loops
	a.counting.Lock()
	defer a.counting.Unlock()
	left := int(a.left.Swap(0))
	if left < n {
		free := max(pl.MaxInFlight-pl.InFlight(), 0)
		left = min(free, max(free/refill, n))
	}
	got := min(n, left)
	a.left.Store(int64(left - got))
	return got
}

// BoundEntries keeps commands from outside waiting while half of MaxInFlight is in flight, if inboxes of so much capacity in
// all could hold more: loops have the other half. Otherwise the capacities do so without counting.
func (pl *Pipeline) BoundEntries(capacity int) {
	if pl.MaxInFlight > 0 && capacity > pl.MaxInFlight/2 {
		pl.bound.Store(int64(max(pl.MaxInFlight/2, 1)))
	} else {
		pl.bound.Store(0)
	}
}

// LoopFull returns the error of a command that the pipeline has no place for.
func (in *Inbox) LoopFull() error {
	return fmt.Errorf("stage %q: %w (%d)", in.cfg.Name, ErrMaxInFlight, in.Pipeline().MaxInFlight)
}

// ShedBackEdge sheds commands that were on a back edge and that the pipeline has no place for.
func (in *Inbox) ShedBackEdge(es []command.Envelope) {
	var fx effects
	in.mu.Lock()
	in.counts.received += uint64(len(es))
	in.counts.losses().shed[shedMaxInFlight] += uint64(len(es))
	fx.end(es, ReasonMaxInFlight, in.LoopFull())
	in.checkQuiet(&fx)
	in.unlock(&fx)
}
