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
	before := in.state.knobs.Knobs
	change(&in.state.knobs.Knobs)
	in.state.knobs.quality.Store(math.Float64bits(in.state.knobs.Quality))
	if before.Priority != in.state.knobs.Priority {
		in.state.voidTokens()
	}
	if in.state.knobs.Disabled {
		in.state.dismissWaiters(&fx)
	}
	in.state.queue.line.Reconsider() // a stage that is resumed has its guards evaluated again
	in.state.queue.line.Resize(in.state.knobs.Capacity)
	in.state.changed(&fx)
	surplus = in.state.surplusInstances()
	in.unlock(&fx)
	return surplus
}

// Order changes the order in which the queue gives its commands out. The
// waiting commands are put into the new order; a discipline with keys asks the
// waiting commands for theirs here, under the lock.
func (in *Inbox) Order(d queue.Discipline) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.state.queue.order(d)
}
