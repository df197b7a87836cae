package worker

import (
	"cmp"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/line"
)

// In an ordered stage the results of a command do not go to an outbox when the
// command has been handled. The worker leaves them with the inbox when it books
// the command, and takes from the inbox the results that may leave: of its own
// commands or of other workers' commands. It puts these results into the
// outboxes and delivers them as in any stage.

// ordering is the worker's part in the line of its stage, if the worker must
// know the holds of its batch: at most one of the parts is not nil. The hold at
// an index is of the command of the batch at that index.
type ordering struct {
	numbers *line.Part    // of the batch, if the present stage is ordered
	holds   *line.Part    // of the batch, if the commands of the present stage hold lanes
	leaving []line.Result // for the next use
}

// join makes the worker one of an ordered stage, or of a keyed one whose
// commands hold lanes, or of neither.
func (o *ordering) join(in *inbox.Inbox, m *inbox.Member) {
	o.numbers, o.holds = nil, nil
	ordered := in.Config().Ordered
	if !ordered && !in.Config().HoldsLanes() {
		return
	}
	if m.Part == nil {
		m.Part = new(line.Part)
	}
	if ordered {
		o.numbers = m.Part
	} else {
		o.holds = m.Part
	}
}

// known returns the worker's part if it knows the holds of the batch; nil if it
// does not.
func (o *ordering) known() *line.Part { return cmp.Or(o.numbers, o.holds) }

// endNumber notes that nothing more comes of a command.
func (o *ordering) endNumber(i int32) {
	if o.numbers != nil {
		o.numbers.End(i)
	}
}

// endNumbers notes that nothing more comes of the commands from one index up to
// another.
func (o *ordering) endNumbers(from, to int32) {
	for i := from; o.numbers != nil && i < to; i++ {
		o.numbers.End(i)
	}
}

// endHold ends the hold of a command on the lane of its key, unless it is to be
// tried again.
func (o *ordering) endHold(i int32) {
	if o.holds != nil {
		o.holds.End(i)
	}
}

// sift has the numbers of the batch follow its commands. Those at the indexes
// that were left out have ended.
func (o *ordering) sift(n int, keep func(i int) bool) {
	if o.numbers == nil {
		return
	}
	var kept []int
	for i := range n {
		if keep(i) {
			kept = append(kept, i)
		} else {
			o.numbers.End(int32(i))
		}
	}
	o.numbers.Order(kept)
}
