package feed

import (
	"context"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/ring"
)

// Width is how many commands a window holds at most: all commands behind the
// first that has not ended, ended ones included.
const Width = 1 << 14

// Window finds the position up to which all commands have ended. Commands enter
// it in the order of their positions and end in any order.
type Window struct {
	mu      sync.Mutex // guards the rest
	places  ring.Ring[place]
	first   uint64 // the number of the first place
	reached int64
	free    chan struct{} // closed when a place comes free; nil if no command waits for one
	changed chan struct{} // has one element when reached has changed

	limit time.Duration // for how long a command waits until that is reported; for the command that waits
}

// firstStand is for how long a command waits until that is reported for the
// first time. Each report doubles the time before the next one, since commands
// may take long.
const firstStand = time.Minute

// place is the place of one command in a window.
type place struct {
	position int64
	ended    bool
}

func newWindow(from int64) *Window {
	return &Window{reached: from, changed: make(chan struct{}, 1), limit: firstStand}
}

// Reached returns the position up to which all commands have ended.
func (w *Window) Reached() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reached
}

// Changed returns a channel that receives when the position has changed since
// the last receive.
func (w *Window) Changed() <-chan struct{} { return w.changed }

// Touch makes the channel of Changed receive, although nothing has changed.
func (w *Window) Touch() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// waiting has the functions to call while a command waits: full every second,
// and stands if that takes long. Stands may be nil.
type waiting struct {
	full   func()
	stands func(waited time.Duration)
}

// enter takes a command in, and returns its number. It waits while the window
// is full. One command enters at a time.
func (w *Window) enter(ctx context.Context, position int64, calls waiting) (uint64, error) {
	n, free := w.tryEnter(position)
	if free == nil {
		return n, nil
	}
	since := time.Now()
	timer := time.NewTimer(w.limit)
	defer timer.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for free != nil {
		select {
		case <-free:
			n, free = w.tryEnter(position)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-look.C:
			calls.full()
		case <-timer.C:
			w.limit *= 2
			timer.Reset(w.limit)
			if calls.stands != nil {
				calls.stands(time.Since(since))
			}
		}
	}
	return n, nil
}

// tryEnter takes a command in if there is a place. Otherwise it returns a
// channel that is closed when a place comes free.
func (w *Window) tryEnter(position int64) (n uint64, free <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.places.Len() < Width {
		n = w.first + uint64(w.places.Len())
		w.places.Push(place{position: position})
		return n, nil
	}
	if w.free == nil {
		w.free = make(chan struct{})
	}
	return 0, w.free
}

// withdraw takes back the command that entered last.
func (w *Window) withdraw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := make([]place, 1)
	w.places.PopBackInto(last)
	w.leave()
}

// end ends a command. The position never passes one that ended without being
// done.
func (w *Window) end(n uint64, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !done {
		return
	}
	w.places.At(int(n - w.first)).ended = true
	w.leave()
}

// leave lets the commands at the front go that have ended.
func (w *Window) leave() {
	before := w.first
	for w.places.Len() > 0 && w.places.At(0).ended {
		w.reached = w.places.Pop().position
		w.first++
	}
	if w.first != before {
		w.Touch()
	}
	if w.free != nil && w.places.Len() < Width {
		close(w.free)
		w.free = nil
	}
}
