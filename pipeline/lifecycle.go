package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/golda-dev/golda/supervisor"
)

// ErrStopped reports that the pipeline was stopped. A pipeline runs once; make
// a new one with [New].
var ErrStopped = errors.New("pipeline: stopped")

var errStarted = errors.New("pipeline: already started")

// lifecycle is the state of a pipeline from New to its end, with why and how it
// ended.
type lifecycle struct {
	name string

	halting context.Context // ends when the pipeline stops hard
	cancel  context.CancelCauseFunc

	mu      sync.Mutex // guards state, tree, failure, signal, fedUp and result
	state   state
	tree    *supervisor.Tree
	failure error // why the pipeline gave up
	signal  os.Signal
	fedUp   bool  // the feeds were exhausted
	result  error // what Stop returns

	started   chan struct{} // closed when the stages take commands
	hard      chan struct{} // closed when a stop is to be hard
	hardOnce  sync.Once     // closes hard
	hardCause error         // why; written before hard is closed
	stopped   chan struct{} // closed when the stop is complete
}

type state uint8

const (
	made state = iota
	starting
	running
	stopping
	stopped
)

func (l *lifecycle) init(name string) {
	l.name = name
	l.halting, l.cancel = context.WithCancelCause(context.Background())
	l.started, l.hard, l.stopped = make(chan struct{}), make(chan struct{}), make(chan struct{})
}

// enter changes the state of a pipeline that was not started, and else returns
// why it cannot.
func (l *lifecycle) enter(s state) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case made:
		l.state = s
		return nil
	case stopping, stopped:
		return fmt.Errorf("pipeline %q: %w", l.name, ErrStopped)
	default:
		return fmt.Errorf("pipeline %q: %w", l.name, errStarted)
	}
}

// in reports whether the pipeline is in a state.
func (l *lifecycle) in(s state) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == s
}

// endSoftStop ends the drain of a stop, which then stops hard, and the drains
// of [Pipeline.Drain].
func (l *lifecycle) endSoftStop(why error) {
	l.hardOnce.Do(func() {
		l.hardCause = why
		close(l.hard)
	})
}

// enterStop reports whether this is the call that stops the pipeline.
func (l *lifecycle) enterStop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case running:
		l.state = stopping
		return true
	case starting: // Start notices it, and finishes
		l.state = stopping
		l.cancel(ErrStopped)
	case made:
		l.state = stopped
		close(l.stopped)
	case stopping, stopped:
	}
	return false
}

// fail sets why the pipeline cannot go on.
func (l *lifecycle) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = fmt.Errorf("pipeline %q: %w", l.name, err)
}

// finish sets the result, and wakes all that wait for the end.
func (l *lifecycle) finish(result error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.result = stopped, result
	close(l.stopped)
}

// broadcast wakes all goroutines that wait, at once.
type broadcast struct {
	mu sync.Mutex // guards ch
	ch chan struct{}
}

// next returns a channel that the next send closes.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
