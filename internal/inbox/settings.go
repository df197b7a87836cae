package inbox

import (
	"math"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/stage/queue"
)

// Adjust changes the knobs: change gets the present ones, under the lock.
// Adjust returns instances that are too many now; the caller stops them.
func (st Settings) Adjust(change func(*Knobs)) (surplus []any) {
	var fx effects
	st.in.mu.Lock()
	before := st.in.state.knobs.Knobs
	change(&st.in.state.knobs.Knobs)
	st.in.state.knobs.quality.Store(math.Float64bits(st.in.state.knobs.Quality))
	if before.Priority != st.in.state.knobs.Priority {
		st.in.state.prioritise(&fx)
	}
	if st.in.state.knobs.Disabled {
		st.in.state.dismissWaiters(&fx)
	}
	st.in.state.queue.line.Reconsider() // a stage that is resumed has its guards evaluated again
	st.in.state.queue.line.Resize(st.in.state.knobs.Capacity)
	if before.Sojourn == 0 && st.in.state.knobs.Sojourn > 0 {
		st.in.state.watchAgain(0) // for the commands that wait already
	}
	st.in.state.changed(&fx)
	surplus = st.in.state.instances.Surplus(st.in.state.knobs.Instances)
	st.in.unlock(&fx)
	return surplus
}

// Order changes the order in which the queue gives its commands out. The
// waiting commands are put into the new order; a discipline with keys asks the
// waiting commands for theirs here, under the lock.
func (st Settings) Order(d queue.Discipline) {
	var fx effects
	st.in.mu.Lock()
	defer st.in.unlock(&fx)
	st.in.state.queue.order(d)
	st.in.state.callWorker(&fx) // the command that is first now may have lingered for long enough
}

// SetDispatch says how the workers choose among the inboxes.
func (sp *SharedPool) SetDispatch(d controller.Dispatch) {
	if !sp.Pool.SetDispatch(d) {
		return
	}
	for _, in := range sp.Inboxes() {
		in.restoreTokens()
	}
}

// restoreTokens gives the inbox's shared pool fresh tokens for old ones.
func (in *Inbox) restoreTokens() {
	var fx effects
	in.mu.Lock()
	in.state.voidTokens(&fx)
	in.state.callWorker(&fx)
	in.unlock(&fx)
}

// Bind has the shared pool's workers visit the inbox; nil gives it back to the
// stage's own.
func (st Settings) Bind(sp *SharedPool) {
	if st.Pool() == sp {
		return
	}
	var fresh *binding
	if sp != nil {
		fresh = sp.Pool.Bind(st.in, st.in.Place, &st.in.state.visits.empties)
	}
	var fx effects
	st.in.mu.Lock()
	old := st.in.state.visits.binding
	st.in.state.rebind(sp, fresh, &fx)
	st.in.unlock(&fx)
	if old != nil {
		old.End()
	}
}

// rebind has the workers of another pool visit the inbox; nil gives it back to
// the stage's own.
func (s *state) rebind(sp *SharedPool, to *binding, fx *effects) {
	s.visits.pool, s.visits.binding, s.visits.stalled = sp, to, false
	s.prioritise(fx)
	s.callWorker(fx)
}
