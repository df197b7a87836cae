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
// A worker takes a batch, as many commands as take about 100 µs: slow ones one at a
// time, and of cheap ones so many that the shared queue costs little. With a Bound of 1
// it is the seed's order to the letter, at twenty times the cost for handlers that do
// nothing.
//
//	Workers      Bound
//	one per CPU  NoBound
type Color struct {
	Workers int // of the shared pool, and of each group if it is set
	Bound   int // the most commands of one stage that a worker takes before it looks at the queue again, or [NoBound]
}

// Name is "color".
func (Color) Name() string { return "color" }

// Check returns all faults of the parameters.
func (p Color) Check() error {
	return errors.Join(
		workersFault("color", p.Workers),
		boundFault("color", p.Bound),
	)
}

// Claims are the knobs of shared workers and their visits.
func (Color) Claims() []controller.Knob { return sharing() }

// New returns a controller; it has nothing to remember.
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
