package queue

// defaultAbove is a full batch of a stage with the default batch size.
const defaultAbove = 64

// AdaptiveLIFO returns the oldest command, but the newest while a queue is
// forming: Maurer, "Fail at Scale" (ACM Queue 13:8, 2015), about Facebook's
// servers. The caller of a command that has waited for long in an overloaded
// server has probably given up; the caller of a new command has not. When the
// overload is over, the remaining commands are processed in the order of their
// arrival.
//
// The paper gives no number and does not say when to return to FIFO. HHVM,
// which it names as an implementation, has one threshold and compares the
// length with it for each command that it takes. AdaptiveLIFO does the same:
// the newest command goes first while more than Above wait, and the oldest
// otherwise. There is no hysteresis. Changing the order costs nothing, so there
// is nothing to gain by changing it seldom. Around the threshold the newest and
// the oldest take turns, which helps the oldest. Within a batch, too, each
// command is chosen by how many still wait.
//
// The other half of the paper, to drop commands that have waited for too long,
// is not part of an order.
//
// An Above that is not below the stage's capacity has no effect.
type AdaptiveLIFO struct {
	Above int // while more than this many wait, the newest goes first; 0 means 64
}

// Name returns "lifo-adaptive".
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
