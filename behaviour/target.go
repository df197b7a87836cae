package behaviour

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrWired is the reason why a port cannot be connected: it already is.
var ErrWired = errors.New("behaviour: port is already wired")

// Target is where a command of type C may go: a stage (*stage.Stage) or a
// [Port] wired to one.
type Target[C any] interface {
	// Submit hands in a command from outside, and waits for room until ctx
	// ends if the stage's overflow rule says so.
	Submit(ctx context.Context, cmd C) error
	// Inlet is the door behind the target, nil if there is none.
	Inlet() *Inlet
}

// Inlet is the untyped door of a stage, as the engine sees it: each stage has
// one. Two inlets are the same door if the pointers are equal.
type Inlet struct {
	name string
	room any
}

// NewInlet makes a door to a room. It is for engines and test doubles; a stage
// brings its own.
func NewInlet(name string, room any) *Inlet { return &Inlet{name: name, room: room} }

// Name is the stage's name.
func (in *Inlet) Name() string { return in.name }

// Room is what the engine has behind the door.
func (in *Inlet) Room() any { return in.room }

// Outlet is the untyped face of a port: what a stage declares with stage.Out
// and a pipeline checks before it starts.
type Outlet interface {
	// Name is the port's name.
	Name() string
	// Wired reports whether the port leads anywhere.
	Wired() bool
	// Inlet is the door the port leads to, nil if it is not wired.
	Inlet() *Inlet
}

// Port is a named way out of a stage for commands of type C. The stage's code
// names the port; which stage it leads to is said elsewhere, when the pipeline
// is put together (LEDA's wiring apart from logic). Make one with [NewPort].
// A port is safe for use by several goroutines.
type Port[C any] struct {
	name string
	to   atomic.Pointer[lead[C]]
}

// lead is where a port leads to, with the door there: it is looked up for every command that is
// forwarded, and to ask the target for it again cost a tenth of a hop.
type lead[C any] struct {
	Target[C]

	inlet *Inlet
}

// NewPort returns a port with a name that is used in messages and drawings.
func NewPort[C any](name string) *Port[C] {
	return &Port[C]{name: name}
}

// Name returns the port's name.
func (p *Port[C]) Name() string { return p.name }

// Connect wires the port to a target, once. It is what pipeline.Wire does; a
// test may call it to see what leaves a behaviour. A second call is [ErrWired],
// no target is [ErrUnwired].
func (p *Port[C]) Connect(to Target[C]) error {
	if to == nil || to.Inlet() == nil {
		return fmt.Errorf("port %q: %w", p.name, ErrUnwired)
	}
	if !p.to.CompareAndSwap(nil, &lead[C]{to, to.Inlet()}) {
		return fmt.Errorf("port %q leads to %q: %w", p.name, p.Inlet().Name(), ErrWired)
	}
	return nil
}

// Wired reports whether the port leads anywhere.
func (p *Port[C]) Wired() bool { return p != nil && p.to.Load() != nil }

// Inlet returns the door the port leads to, nil if it is not wired.
func (p *Port[C]) Inlet() *Inlet {
	if p == nil {
		return nil
	}
	to := p.to.Load()
	if to == nil {
		return nil
	}
	return to.inlet
}

// Submit hands a command to the target behind the port, or fails with
// [ErrUnwired].
func (p *Port[C]) Submit(ctx context.Context, cmd C) error {
	if !p.Wired() {
		return fmt.Errorf("port %q: %w", p.Name(), ErrUnwired)
	}
	return p.to.Load().Submit(ctx, cmd)
}
