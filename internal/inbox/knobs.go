package inbox

import (
	"math"

	"github.com/golda-dev/golda/stage/queue"
)

// Adjust changes the knobs: change gets the present ones, under the lock.
// Adjust returns instances that are too many now; the caller stops them.
func (in *Inbox) Adjust(change func(*Knobs)) (surplus []any) {
	var fx effects
	in.mu.Lock()
	before := in.knobs.Knobs
	change(&in.knobs.Knobs)
	in.knobs.quality.Store(math.Float64bits(in.knobs.Quality))
	if before.Priority != in.knobs.Priority {
		in.voidTokens()
	}
	if in.knobs.Disabled {
		in.dismissWaiters(&fx)
	}
	in.queue.line.Reconsider() // a stage that is resumed has its guards evaluated again
	in.queue.line.Resize(in.knobs.Capacity)
	in.changed(&fx)
	surplus = in.surplusInstances()
	in.unlock(&fx)
	return surplus
}

// Order changes the order in which the queue gives its commands out. The
// waiting commands are put into the new order; a discipline with keys asks the
// waiting commands for theirs here, under the lock.
func (in *Inbox) Order(d queue.Discipline) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queue.order(d)
}
