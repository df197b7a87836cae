package policy

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/controller"
)

// Color has all workers serve one queue, first come first served: the single
// queue of sections 3.6 and 4.7 of the dissertation of Cruz (2015), after the
// colors of Zeldovich, Yip, Dabek, Morris, Mazières and Kaashoek,
// "Multiprocessor Support for Event-Driven Programs" (USENIX 2003).
//
// Each command carries its stage as its color. A worker takes the next command,
// handles it with its stage's behaviour, and goes back to the queue. The order
// is breadth first: commands that arrived earlier go one stage ahead before
// commands that arrived later.
//
// A stage has no more commands in the shared queue than it has free instances
// (StageStats.Instances, the workers that may be there at once); the others
// wait in the stage's own queue. This rule is not optional: without it each
// step of a command waits behind everything that arrived meanwhile, and under
// overload everything takes twice as long. A stage with one instance is serial,
// one color at a time.
//
// (In the dissertation's program the queue was a heap with equal keys, in which
// elements in the middle starve. Here the queue really is first come first
// served.)
//
// A worker takes a batch, as many commands as take about 100 µs: slow commands
// one at a time, and enough cheap ones to make the cost of the shared queue
// small. With a Bound of 1 the order is exactly the dissertation's, at twenty
// times the cost for handlers that do nothing.
//
//	Workers      Bound
//	one per CPU  NoBound
type Color struct {
	Workers int // of the shared pool, and of each group if it is set
	Bound   int // the maximum number of commands of one stage that a worker takes before it goes back to the queue, or [NoBound]
}

// Name returns "color".
func (Color) Name() string { return "color" }

// Check returns all faults of the parameters.
func (p Color) Check() error {
	return errors.Join(
		workersFault("color", p.Workers),
		boundFault("color", p.Bound),
	)
}

// Claims returns the knobs of shared workers and their visits.
func (Color) Claims() []controller.Knob { return sharing() }

// New returns a controller; it has no memory.
func (p Color) New() controller.Controller {
	return newVisits(
		gathering{dispatch: controller.SharedFIFO, workers: p.Workers},
		rhythm{},
		color{bound: cmp.Or(p.Bound, NoBound)},
	)
}

type color struct{ bound int }

func (c color) route(v *view, p *controller.VisitPlan) bool {
	bounded(v, p, c.bound)
	return true
}

func (c color) why(v *view) string {
	return fmt.Sprintf("one queue for %s, %s", stagesIn(v), boundText(c.bound))
}
