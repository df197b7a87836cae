package queue

// defaultAbove is a full batch of a stage that does not say how large its are.
const defaultAbove = 64

// AdaptiveLIFO gives out the command that came first, but while a queue is forming
// the one that came last: Maurer, "Fail at Scale" (ACM Queue 13:8, 2015), about
// Facebook's servers. Whoever has waited for long in an overloaded server has probably given
// up; who has just come has not. When the overload is over, those who were left
// are done in the order in which they came.
//
// The paper gives no number and does not say when to turn back. HHVM, which it names
// as doing it, has one threshold and looks at each command that it takes, and so does this:
// the newest goes first while more than Above wait, and the oldest otherwise.
// There is no hysteresis. To turn costs nothing, so nothing is saved by turning seldom;
// and around the threshold the two take turns, which the oldest are glad of. Within a batch
// too each command is chosen by how many still wait.
//
// The other half of the paper, to let go of what has waited for too long, is no
// affair of an order.
//
// An Above that the stage's capacity does not exceed never does anything.
type AdaptiveLIFO struct {
	Above int // while more than this many wait, the newest goes first; 0 means 64
}

// Name is "lifo-adaptive".
func (AdaptiveLIFO) Name() string { return "lifo-adaptive" }

// Check returns all faults of the parameters.
func (d AdaptiveLIFO) Check() error {
	return fault(d.Name(), d.Above < 0, "Above %d is negative", d.Above)
}

func (d AdaptiveLIFO) plan() plan {
	if d.Above == 0 {
		d.Above = defaultAbove
	}
	return plan{build: turning, above: d.Above}
}
