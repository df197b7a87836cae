package pool

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/controller"
)

// Pool is a pool of workers that several inboxes share. Its workers are parked
// here, not at the inboxes, and come to an inbox for a visit.
//
// An inbox that has work, and a free instance to do it, gives the pool a token;
// a pool with tokens has no idle worker. In a pool that shares one queue the
// tokens are that queue, and an inbox has no more of them in it than free
// instances. In a polled pool they only say that it is worth making a round.
type Pool[M, I any] struct {
	name   string
	events Events[M]
	mode   atomic.Uint32 // controller.Dispatch

	rounds, visits, empties atomic.Uint64
	reportEvery             atomic.Int64 // after how many visits Visited is called; 0: never
	noted                   atomic.Int32 // bindings with a note
	live                    atomic.Int32 // workers; written with mu
	route                   atomic.Pointer[route[M, I]]

	mu    sync.Mutex // guards all below
	set   Set[M]
	bound []*Binding[M, I] // by place
	ready tokens[M, I]
}

// Events are functions that the pool calls, with no lock held. None is nil.
type Events[M any] struct {
	// Wake makes a worker take its turn. It does not block.
	Wake     func(*M)
	RoundEnd func() // the first worker has ended a round of a visit plan
	Visited  func() // visits were made; see [Pool.ReportVisits]
}

// New returns a pool without workers and inboxes, whose inboxes share one
// queue.
func New[M, I any](name string, events Events[M]) *Pool[M, I] {
	p := &Pool[M, I]{name: name, events: events}
	p.mode.Store(uint32(controller.SharedFIFO))
	p.route.Store(newRoute[M, I](nil, nil))
	return p
}

// Name returns the pool's name.
func (p *Pool[M, I]) Name() string { return p.name }

// Dispatch says how the workers choose among the inboxes.
func (p *Pool[M, I]) Dispatch() controller.Dispatch { return controller.Dispatch(p.mode.Load()) }

// Polled reports whether workers follow a visit plan.
func (p *Pool[M, I]) Polled() bool { return p.Dispatch() == controller.Polled }

// SetDispatch changes how the workers choose among the inboxes, and reports
// whether that is a change. If so the caller has each of the pool's inboxes
// begin an era, and count its tokens anew: they were counted for the old mode.
func (p *Pool[M, I]) SetDispatch(d controller.Dispatch) (changed bool) {
	return p.mode.Swap(uint32(d)) != uint32(d)
}

// Plan returns the visit plan, nil if none was given.
func (p *Pool[M, I]) Plan() *controller.VisitPlan { return p.route.Load().plan }

// SetPlan gives the pool a visit plan.
func (p *Pool[M, I]) SetPlan(plan *controller.VisitPlan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.route.Store(newRoute(plan, p.bound))
}

// reroute fits the plan to the inboxes.
func (p *Pool[M, I]) reroute() { p.route.Store(p.route.Load().refit(p.bound)) }

// ReportVisits asks for Events.Visited after every n visits; 0 and less for
// none.
func (p *Pool[M, I]) ReportVisits(n int) { p.reportEvery.Store(int64(max(n, 0))) }

// Bind makes an inbox one of the pool's. Place is the inbox's place in the
// pipeline, and empties counts the visits that find nothing to do there. The
// inbox gives no tokens before: so a caller that changes the mode finds each
// inbox that may have counted tokens for the old one.
func (p *Pool[M, I]) Bind(inbox I, place int, empties *atomic.Uint64) *Binding[M, I] {
	b := &Binding[M, I]{inbox: inbox, place: place, pool: p, empties: empties}
	p.mu.Lock()
	defer p.mu.Unlock()
	i, _ := slices.BinarySearchFunc(p.bound, place, func(o *Binding[M, I], place int) int { return o.place - place })
	p.bound = slices.Insert(p.bound, i, b)
	p.reroute()
	return b
}

// Inboxes returns the inboxes, in the order of the pipeline.
func (p *Pool[M, I]) Inboxes() []I {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]I, len(p.bound))
	for i, b := range p.bound {
		all[i] = b.inbox
	}
	return all
}

// Workers returns how many workers there are. It takes no lock.
func (p *Pool[M, I]) Workers() int { return int(p.live.Load()) }

// Accounts is a copy of a pool's accounts.
type Accounts struct {
	Live, Most              int
	Rounds, Visits, Empties uint64
}

// Accounts copies the accounts.
func (p *Pool[M, I]) Accounts() Accounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Accounts{
		Live: p.set.Live(), Most: p.set.Most(),
		Rounds: p.rounds.Load(), Visits: p.visits.Load(), Empties: p.empties.Load(),
	}
}

// Join adds a worker.
func (p *Pool[M, I]) Join(m *M, a *Attendance[M]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set.Join(m, a)
	p.live.Store(int32(p.set.Live()))
}

// Leave removes a worker. If there are tokens, another is woken.
func (p *Pool[M, I]) Leave(a *Attendance[M]) {
	p.change(func(called *woken[M]) {
		if p.depart(a) {
			p.callAnother(called)
		}
	})
}

// Abandon removes a worker that was given up.
func (p *Pool[M, I]) Abandon(a *Attendance[M]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.depart(a)
}

func (p *Pool[M, I]) depart(a *Attendance[M]) bool {
	ok := p.set.Depart(a)
	p.live.Store(int32(p.set.Live()))
	return ok
}

// Shrink asks n workers to leave.
func (p *Pool[M, I]) Shrink(n int) {
	p.change(func(called *woken[M]) { called.rest = p.set.Shrink(n) })
}

// Unshrink takes back up to n requests to leave that no worker has followed
// yet, and returns how many.
func (p *Pool[M, I]) Unshrink(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set.Unshrink(n)
}

// ForgetShrink forgets requests to leave.
func (p *Pool[M, I]) ForgetShrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set.ForgetShrink()
}

// change runs f with the lock, and then wakes the workers that it has called.
func (p *Pool[M, I]) change(f func(called *woken[M])) {
	var called woken[M]
	p.mu.Lock()
	f(&called)
	p.mu.Unlock()
	p.wake(&called)
}

// pending reports whether there is a token that no worker has taken.
func (p *Pool[M, I]) pending() bool { return p.ready.len() > 0 || p.noted.Load() > 0 }

// callAnother calls a worker if there are tokens.
func (p *Pool[M, I]) callAnother(called *woken[M]) {
	if p.pending() {
		called.add(p.set.CallAny())
	}
}

// Arrive notes that a worker takes its turn, and reports whether the worker
// must leave. If so and there are tokens, another is woken.
func (p *Pool[M, I]) Arrive(a *Attendance[M]) (leaves bool) {
	var called woken[M]
	p.mu.Lock()
	p.set.Arrive(a)
	leaves = p.set.Retires()
	if leaves {
		p.callAnother(&called)
	}
	p.mu.Unlock()
	p.wake(&called)
	return leaves
}

// LooksOnceMore notes that a worker has found no work, and takes another turn
// before it is parked.
func (p *Pool[M, I]) LooksOnceMore(a *Attendance[M]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set.Expect(a)
}

// Park parks a worker, unless there is a token, or a worker must leave. It
// reports whether it did.
func (p *Pool[M, I]) Park(a *Attendance[M], v *Visit[M, I]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending() || p.set.Excess() > 0 {
		return false
	}
	p.set.Park(a)
	v.empty = 0
	return true
}

// Next takes a token, and returns the inbox to visit, nil if there is none, and
// the token's era. The inbox may refuse the token: then the worker ends its
// visit, if it has walked, and asks again.
func (p *Pool[M, I]) Next(v *Visit[M, I]) (*Binding[M, I], uint32) {
	if v.walked = p.Polled(); v.walked {
		return p.walk(v)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready.len() == 0 {
		return nil, 0
	}
	t := p.ready.pop()
	return t.of, t.era
}

// walk follows the plan to the next inbox with a token, and takes that. It
// returns nil after one round of empty visits if there is no token.
func (p *Pool[M, I]) walk(v *Visit[M, I]) (*Binding[M, I], uint32) {
	if v.route == nil {
		v.route = p.route.Load()
	}
	v.turnTo(p.route.Load())
	for {
		n := len(v.route.order)
		if n == 0 {
			v.route = p.route.Load()
			return nil, 0
		}
		b := v.route.order[v.walk.At(n)]
		if era, ok := b.takeNote(); ok {
			return b, era
		}
		if v.empty >= n && p.noted.Load() == 0 {
			return nil, 0
		}
		p.pass(b, v)
	}
}

// pass ends a visit that found nothing to do.
func (p *Pool[M, I]) pass(b *Binding[M, I], v *Visit[M, I]) {
	b.empties.Add(1)
	p.endVisit(v, 0, false)
}

// Passed ends a visit with which the worker got nothing, if the worker has come
// along its route. Another token is no visit.
func (p *Pool[M, I]) Passed(b *Binding[M, I], v *Visit[M, I]) {
	if v.walked {
		p.pass(b, v)
	}
}

// Left is how many commands a worker may still take in its visit: 0 for any
// number, -1 for none. It takes no lock, and reads the clock if the plan needs
// it.
func (p *Pool[M, I]) Left(v *Visit[M, I], clock func() int64) int {
	rt := v.route
	if rt == nil || !p.Polled() {
		rt = p.route.Load()
	}
	return v.left(rt.plan, clock)
}

// Continues reports whether a visit may go on at the inbox when a batch is
// done. With a token from the queue it may not: the inbox has given others
// meanwhile.
func (p *Pool[M, I]) Continues(v *Visit[M, I]) bool { return v.walked && p.Polled() }

// EndVisit ends the visit of a worker that has got commands. Polled is what
// Continues returned before. Bounded says that the plan ended the visit though
// there was more to do.
func (p *Pool[M, I]) EndVisit(v *Visit[M, I], polled, bounded bool) {
	if polled {
		p.endVisit(v, v.handled, bounded)
	} else {
		p.count(false)
	}
}

// endVisit ends a visit of a worker that polls.
func (p *Pool[M, I]) endVisit(v *Visit[M, I], handled int, bounded bool) {
	p.count(handled == 0)
	rt := v.route
	if !v.leave(p.route.Load(), handled, bounded) {
		return
	}
	p.rounds.Add(1)
	if rt.firstRound() {
		p.events.RoundEnd()
	}
}

// count counts a visit.
func (p *Pool[M, I]) count(empty bool) {
	if empty {
		p.empties.Add(1)
	}
	n := p.visits.Add(1)
	if every := uint64(p.reportEvery.Load()); every > 0 && n%every == 0 {
		p.events.Visited()
	}
}
