package event

import (
	"container/heap"
	"encoding/json"
	"slices"
	"sort"
	"time"

	"github.com/golda-dev/golda/internal/command"
)

// form says which windows there are.
type form[A any] struct {
	name    string // of its constructor
	length  int64  // of a window, in nanoseconds; of a session, the gap
	every   int64  // where windows begin; 0 for sessions
	session bool
	merge   func(a, b A) A // for sessions
}

// window is a window that is open, or was passed on and may be passed on again.
type window[K comparable, A any] struct {
	of         *entry[K, A]
	start, end int64
	value      A
	count      int
	passed     int         // how often it was passed on
	over       bool        // the watermark has reached its end
	closed     bool        // it is forgotten
	opened     time.Time   // in this process
	pane       *pane[K, A] // which has the commands that no result has; nil if there are none

	due   int64 // the place in the queue: its end or earlier, or its end and the lateness if it is over
	index int   // in the queue
	seq   uint64
}

// result returns the window as it is passed on.
func (w *window[K, A]) result(early bool) Window[K, A] {
	return Window[K, A]{
		Key: w.of.key, Start: timeOf(w.start), End: timeOf(w.end), Value: w.value, Count: w.count, Pane: w.passed, Early: early,
	}
}

func timeOf(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// entry has the windows of a key, in the order of their starts.
type entry[K comparable, A any] struct {
	clock

	key     K
	windows []*window[K, A]
}

// at returns the window with a start; nil if there is none. Most often it is the
// last.
func (e *entry[K, A]) at(start int64) *window[K, A] {
	for i := len(e.windows) - 1; i >= 0; i-- {
		if w := e.windows[i]; w.start == start {
			return w
		} else if w.start < start {
			return nil
		}
	}
	return nil
}

// insert adds a window.
func (e *entry[K, A]) insert(w *window[K, A]) {
	i := sort.Search(len(e.windows), func(i int) bool { return e.windows[i].start > w.start })
	e.windows = slices.Insert(e.windows, i, w)
}

// clock has the times of a source or a key.
type clock struct {
	latest int64 // the latest time of a command
	mark   int64 // the watermark, which never falls; unused for a source
	active bool  // there was a command since the last tick
}

// state says what the command of a pane does.
type state int

const (
	waits  state = iota // until the pane is passed on
	fired               // passes on the result
	joined              // ends: its pane is part of another one
	parked              // ends: a checkpoint has its window
	gone                // the result was passed on, or is lost
)

// pane has the commands of a window that no result has yet. One command of the
// stage for results holds it.
type pane[K comparable, A any] struct {
	keeper *keeper[K, A]   // nil if it comes from a letter
	of     *window[K, A]   // likewise
	from   *command.Origin // of the command that holds it
	first  *command.Ticket // of the command that has begun it; nil if it has none
	group  command.Group   // of its other commands
	result Window[K, A]    // when it has fired

	state   state
	arrived bool // its command is in the stage
	wake    func()

	before *pane[K, A] // of the same key, whose result leaves first; nil if there is none
	next   func()      // wakes the command that waits until the result is passed on
}

// MarshalJSON returns the window, for letters.
func (p *pane[K, A]) MarshalJSON() ([]byte, error) {
	result := p.result
	if p.keeper != nil {
		p.keeper.mu.Lock()
		if result = p.result; p.state == waits {
			result = p.of.result(true)
		}
		p.keeper.mu.Unlock()
	}
	return json.Marshal(result)
}

// UnmarshalJSON makes the pane one that passes on the window of a letter.
func (p *pane[K, A]) UnmarshalJSON(text []byte) error {
	p.state = gone
	return json.Unmarshal(text, &p.result)
}

// queue is a heap of all windows, the first that is due on top.
type queue[K comparable, A any] []*window[K, A]

func (q queue[K, A]) Len() int { return len(q) }

func (q queue[K, A]) Less(i, j int) bool {
	return q[i].due < q[j].due || q[i].due == q[j].due && q[i].seq < q[j].seq
}

func (q queue[K, A]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push adds a window, for package heap.
func (q *queue[K, A]) Push(w any) {
	one := w.(*window[K, A])
	one.index = len(*q)
	*q = append(*q, one)
}

// Pop removes the last window, for package heap.
func (q *queue[K, A]) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return w
}

// move gives a window another place.
func (q *queue[K, A]) move(w *window[K, A], due int64) {
	if w.due != due {
		w.due = due
		heap.Fix(q, w.index)
	}
}
