package room

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/command"
)

// ErrMaxInFlight refuses a command on a way that closes a loop: the pipeline holds as many
// commands as it may.
var ErrMaxInFlight = errors.New("stage: too many commands in flight; see pipeline.MaxInFlight")

// Ways that close a loop are let in beyond the capacity of a room, or the rooms of the loop could
// wait for one another. What they add is bounded by the host's MaxInFlight.

// allowance is how many commands may still come in along ways back before the commands in flight
// are counted again. To count them takes the lock of every room, so each count covers many commands.
type allowance struct {
	left atomic.Int64

	counting sync.Mutex // one goroutine counts at a time
}

// refill is the part of the free places that one count hands out. The rest covers what other ways
// bring in before the next count.
const refill = 8

// Allow takes up to n commands off the allowance and returns how many: fewer than n if the
// pipeline holds as many as it may. It must not be called with a room's lock.
func (h *Host) Allow(n int) int {
	if h.MaxInFlight <= 0 {
		return n
	}
	a := &h.loops
	for {
		left := a.left.Load()
		if left < int64(n) {
			return h.count(n)
		}
		if a.left.CompareAndSwap(left, left-int64(n)) {
			return n
		}
	}
}

// count counts the commands in flight and takes up to n off a fresh allowance.
func (h *Host) count(n int) int {
	a := &h.loops
	a.counting.Lock()
	defer a.counting.Unlock()
	left := int(a.left.Swap(0))
	if left < n {
		free := max(h.MaxInFlight-h.InFlight(), 0)
		left = min(free, max(free/refill, n))
	}
	got := min(n, left)
	a.left.Store(int64(left - got))
	return got
}

// BoundEntries keeps commands from outside waiting while half of MaxInFlight is in flight, if rooms
// of so much capacity in all could hold more: loops are to have the other half. Otherwise
// the capacities do so without counting.
func (h *Host) BoundEntries(capacity int) {
	if h.MaxInFlight > 0 && capacity > h.MaxInFlight/2 {
		h.bound.Store(int64(max(h.MaxInFlight/2, 1)))
	} else {
		h.bound.Store(0)
	}
}

// Crowded says that a stage does not take a command because the pipeline holds as many as it may.
func (r *Room) Crowded() error {
	return fmt.Errorf("stage %q: %w (%d)", r.cfg.Name, ErrMaxInFlight, r.Host().MaxInFlight)
}

// Refuse sheds commands that were on a way back and that the pipeline has no place for.
func (r *Room) Refuse(es []command.Envelope) {
	r.mu.Lock()
	r.c.received += uint64(len(es))
	r.c.losses().shed[shedMaxInFlight] += uint64(len(es))
	r.settled()
	r.mu.Unlock()
	r.bury(es, ReasonMaxInFlight, r.Crowded())
}

// RefuseNew reports a command that a handler could not emit along a way back. It was not
// accepted, so it is in no account but leaves a letter.
func (r *Room) RefuseNew(cmd any, err error) {
	r.Host().Lost(End{Room: r, Cmd: cmd, Reason: ReasonMaxInFlight, Err: err})
}
