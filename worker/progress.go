package worker

import (
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/yield"
)

// progress is how far the worker has come with its batch: the commands before
// cur are done, and tally counts the outcomes of commands that are not booked.
type progress struct {
	yields  yield.Habit
	n, cur  int32 // the size of the batch, 0 between batches, and the index of the command that is being handled
	skipped int32 // commands before cur that were not started
	mark    int64 // the last reading of the clock; 0 if it is out of date
	tally   inbox.Tally
	spent   []any // the loads of completed commands, if they may be in boxes, until they are booked
}

// start starts a batch of n commands.
func (p *progress) start(n int) { p.n, p.cur, p.skipped = int32(n), 0, 0 }

// spend notes the load of a completed command, which may be in a box. The
// batch may be read until it is booked.
func (p *progress) spend(load any) { p.spent = append(p.spent, load) }

// recycle gives back the boxes of the commands that the worker has completed.
// These are booked, so the copies that the inbox had of them are not read any
// more.
func (p *progress) recycle(boxes command.Recycler) {
	if len(p.spent) > 0 {
		boxes.Recycle(p.spent)
		clear(p.spent)
		p.spent = p.spent[:0]
	}
}
