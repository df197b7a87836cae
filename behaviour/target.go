package behaviour

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/link"
)

// errWired is returned when a port that is already wired is connected again.
var errWired = errors.New("behaviour: port is already wired")

// Target is where a command of type C can be sent: a stage (*stage.Stage) or a
// [Port] wired to one.
type Target[C any] interface {
	// Submit submits a command from outside. If the stage is full and its
	// overflow rule is Wait, Submit waits for a free slot until ctx ends.
	Submit(ctx context.Context, cmd C) error
	// Inlet returns the inlet of the target's stage, or nil if there is none.
	Inlet() *Inlet
}

// Inlet is the untyped input of a stage, as the engine sees it. Each stage has
// exactly one, so two inlets are the same if the pointers are equal. Its method
// Name returns the stage's name.
type Inlet = link.Inlet

// Outlet is the untyped view of the target of a forward: a [Port], or a stage.
// A stage declares it with stage.Out, and a pipeline checks it before it
// starts.
type Outlet interface {
	// Name returns the name of the port or stage.
	Name() string
	// Inlet returns the inlet of the stage, or of the stage that the port is
	// wired to. It returns nil if the port is not wired.
	Inlet() *Inlet
}

// Port is a named output of a stage for commands of type C. The stage's code
// names the port; the pipeline decides, when it is put together, which stage
// the port leads to (as LEDA separates wiring from logic), and may change that
// while it runs. Make a port with [NewPort]. A port is safe for use by several
// goroutines.
type Port[C any] struct {
	name string
	to   atomic.Pointer[lead[C]]
}

// lead holds the target of a port and the target's inlet. The inlet is read for
// every forwarded command, and calling the target's Inlet method each time cost
// a tenth of a hop.
type lead[C any] struct {
	target Target[C]
	inlet  *Inlet
}

// NewPort returns a port with a name that is used in messages and drawings.
func NewPort[C any](name string) *Port[C] {
	return &Port[C]{name: name}
}

// Name returns the port's name.
func (p *Port[C]) Name() string { return p.name }

// Connect wires the port to a target, once. pipeline.Wire calls it; a test may
// call it to capture the commands that a behaviour submits. A second call
// fails. A nil target is refused with [ErrUnwired].
func (p *Port[C]) Connect(to Target[C]) error {
	if to == nil || to.Inlet() == nil {
		return unwiredPort(p.name)
	}
	if !p.to.CompareAndSwap(nil, &lead[C]{to, to.Inlet()}) {
		return wiredTo(p.name, p.Inlet())
	}
	return nil
}

// unwiredPort is the error of a port that has no target.
func unwiredPort(port string) error { return fmt.Errorf("port %q: %w", port, ErrUnwired) }

// wiredTo is the error of a port that has a target already.
func wiredTo(port string, in *Inlet) error {
	return fmt.Errorf("port %q leads to %q: %w", port, in.Name(), errWired)
}

func init() { //nolint:gochecknoinits // package link must not name a port's type
	link.Rewire = func(port, to any) { port.(interface{ rewire(to any) }).rewire(to) }
}

// rewire has the port lead to another target, see link.Rewire.
func (p *Port[C]) rewire(to any) {
	target := to.(Target[C])
	p.to.Store(&lead[C]{target, target.Inlet()})
}

// Wired reports whether the port is wired to a target.
func (p *Port[C]) Wired() bool { return p != nil && p.to.Load() != nil }

// Inlet returns the inlet that the port is wired to, or nil if it is not wired.
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

// Submit submits a command to the target of the port, or fails with
// [ErrUnwired].
func (p *Port[C]) Submit(ctx context.Context, cmd C) error {
	if !p.Wired() {
		return unwiredPort(p.Name())
	}
	return p.to.Load().target.Submit(ctx, cmd)
}
