package feed

import (
	"context"
	"sync"

	"github.com/golda-dev/golda/internal/ring"
)

// Width is how many commands a window holds at most: those behind the first that has not ended, whether they have ended or
// not.
const Width = 1 << 14

// Window finds the position up to which all commands have ended. Commands enter it in the order of their positions and end in
// any order.
type Window struct {
	mu      sync.Mutex // guards the rest
	places  ring.Ring[place]
	first   uint64 // the number of the first place
	reached int64
	free    chan struct{} // closed when a place comes free; nil if no command waits for one
	changed chan struct{} // has one element when reached has changed
}

// place is the place of one command in a window.
type place struct {
	position int64
	ended    bool
}

func newWindow(from int64) *Window { return &Window{reached: from, changed: make(chan struct{}, 1)} }

// Reached returns the position up to which all commands have ended.
func (w *Window) Reached() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reached
}

// Changed returns a channel that receives when the position has changed since the last receive.
func (w *Window) Changed() <-chan struct{} { return w.changed }

// Touch makes the channel of Changed receive, although nothing has changed.
func (w *Window) Touch() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// enter takes a command in, and returns its number. It waits while the window is full.
func (w *Window) enter(ctx context.Context, position int64) (uint64, error) {
	for {
		w.mu.Lock()
		if w.places.Len() < Width {
			n := w.first + uint64(w.places.Len())
			w.places.Push(place{position: position})
			w.mu.Unlock()
			return n, nil
		}
		if w.free == nil {
			w.free = make(chan struct{})
		}
		free := w.free
		w.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// withdraw takes back the command that entered last.
func (w *Window) withdraw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := make([]place, 1)
	w.places.PopBackInto(last)
	w.leave()
}

// end ends a command. The position never passes one that ended without being done.
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
