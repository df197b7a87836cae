package policy

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/controller"
)

// Color has all workers serve one queue, first come first served: the single queue of
// sections 3.6 and 4.7 of the dissertation of Cruz (2015), after the colors of Zeldovich,
// Yip, Dabek, Morris, Mazières and Kaashoek, "Multiprocessor Support for
// Event-Driven Programs" (USENIX 2003).
//
// Each command carries its stage as its color. A worker takes the next command,
// handles it with its stage's behaviour, and looks at the queue again. The order is
// breadth first: what arrived earlier goes one stage ahead before what arrived later.
//
// A stage has no more commands in the shared queue than it has free instances
// (StageStats.Instances, the workers that may be there at once); the others wait in
// the stage's own queue. That is no option to drop. Without it each step of a
// command waits behind all that arrived meanwhile, and under overload everything takes
// twice as long. A stage with one instance is serial, one color at a time.
//
// (In the seed's own program the queue was a heap with equal keys, in which those
// in the middle starve. Here it is first come first served indeed.)
//
//	Workers      Bound
//	one per CPU  1
type Color struct {
	Workers int // of the shared pool, and of each group if it is set
	Bound   int // how many commands of one stage a worker takes before it looks at the queue again
}

// Name is "color".
func (Color) Name() string { return "color" }

// Check returns all faults of the parameters.
func (p Color) Check() error {
	return errors.Join(
		workersFault("color", p.Workers),
		fault("color", p.Bound < 0, "Bound %d is negative", p.Bound),
	)
}

// Claims are the knobs of shared workers and their visits.
func (Color) Claims() []controller.Knob { return sharing() }

// New returns a controller; it has nothing to remember.
func (p Color) New() controller.Controller {
	return newVisits(
		gathering{dispatch: controller.SharedFIFO, workers: p.Workers},
		rhythm{},
		color{bound: cmp.Or(p.Bound, 1)},
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
