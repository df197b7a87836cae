package inbox

import (
	"math"
	"slices"

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
	surplus = st.in.state.instances.surplus(st.in.state.knobs.Instances)
	st.in.unlock(&fx)
	return surplus
}

// prioritise gives the shared pool tokens with the present priority for old
// ones.
func (s *state) prioritise(fx *effects) {
	if s.visits.binding != nil {
		s.visits.binding.priority.Store(int64(s.knobs.Priority))
	}
	s.voidTokens(fx)
}

// Order changes the order in which the queue gives its commands out. The
// waiting commands are put into the new order; a discipline with keys asks the
// waiting commands for theirs here, under the lock.
func (st Settings) Order(d queue.Discipline) {
	st.in.mu.Lock()
	defer st.in.mu.Unlock()
	st.in.state.queue.order(d)
}

// SetDispatch says how the workers choose among the inboxes.
func (sp *SharedPool) SetDispatch(m controller.Dispatch) {
	if sp.mode.Swap(uint32(m)) == uint32(m) {
		return
	}
	for _, b := range sp.bindings() {
		b.inbox.restoreTokens()
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
//
// The pool knows of the inbox before that gives it a token, so that a change of
// the pool's mode finds all inboxes that may have given tokens.
func (st Settings) Bind(sp *SharedPool) {
	if st.Pool() == sp {
		return
	}
	fresh := sp.bind(st.in)
	var fx effects
	st.in.mu.Lock()
	old := st.in.state.visits.binding
	st.in.state.rebind(fresh, &fx)
	st.in.unlock(&fx)
	old.end()
}

// rebind has the workers of another pool visit the inbox; nil gives it back to
// the stage's own.
func (s *state) rebind(to *binding, fx *effects) {
	s.visits.binding, s.visits.stalled = to, false
	if to != nil {
		to.priority.Store(int64(s.knobs.Priority))
	}
	s.voidTokens(fx)
	s.callWorker(fx)
}

// end takes the inbox out of the pool, with its tokens.
func (b *binding) end() {
	if b == nil {
		return
	}
	sp := b.pool
	sp.mu.Lock()
	defer sp.mu.Unlock()
	b.ended = true
	sp.drop(b)
	sp.members = slices.DeleteFunc(sp.members, func(o *binding) bool { return o == b })
	sp.reroute()
}

// bind makes an inbox one of the pool's. Nil has no inboxes.
func (sp *SharedPool) bind(in *Inbox) *binding {
	if sp == nil {
		return nil
	}
	b := &binding{inbox: in, pool: sp}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	i, _ := slices.BinarySearchFunc(sp.members, in.Place, func(o *binding, place int) int { return o.inbox.Place - place })
	sp.members = slices.Insert(sp.members, i, b)
	sp.reroute()
	return b
}

// reroute fits the plan to the inboxes. It is no new plan, so the end of its
// first round is reported once only.
func (sp *SharedPool) reroute() {
	old := sp.route.Load()
	fresh := newRoute(old.plan, sp.members)
	fresh.ended = old.ended
	sp.route.Store(fresh)
}

// Join adds a worker.
func (sp *SharedPool) Join(m *Member) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.join(m)
	sp.alive.Store(int32(sp.live))
	m.visit = new(visit)
}

// remove removes a worker. It returns false if it had not joined. The lock is
// held.
func (sp *SharedPool) remove(m *Member) bool {
	ok := sp.depart(m)
	sp.alive.Store(int32(sp.live))
	return ok
}

// Leave removes a worker, and ends its visit if it is at an inbox. If there is
// something to do, another worker is called for it.
func (sp *SharedPool) Leave(m *Member, t *Tally) {
	if m.visit != nil && m.visit.at != nil {
		sp.stay(m.visit.at, m, t, true)
	}
	var fx effects
	sp.mu.Lock()
	if sp.remove(m) && sp.pending() {
		fx.wakeWorker(sp.callIdle())
	}
	sp.unlock(&fx)
}

// Abandon removes a worker that was given up from the shared pool.
func (sp *SharedPool) Abandon(m *Member) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.remove(m)
}

// Shrink asks n workers to leave.
func (sp *SharedPool) Shrink(n int) {
	var fx effects
	sp.mu.Lock()
	for _, m := range sp.shrink(n) {
		fx.wakeWorker(m)
	}
	sp.unlock(&fx)
}

// Unshrink takes back up to n requests to leave that no worker has followed
// yet, and returns how many.
func (sp *SharedPool) Unshrink(n int) int {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.unshrink(n)
}

// ForgetShrink forgets requests to leave, and the inboxes' streaks of crashes.
// It is called when no worker is left.
func (sp *SharedPool) ForgetShrink() {
	sp.mu.Lock()
	sp.excess = 0
	sp.mu.Unlock()
	for _, in := range sp.Inboxes() {
		in.forgetCrashes()
	}
}

// CrashIdle is for a worker that ended between two inboxes: no inbox counts it.
func (sp *SharedPool) CrashIdle(*Member) {}
