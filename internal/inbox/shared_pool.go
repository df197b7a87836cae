package inbox

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/controller"
)

// SharedPool is a pool of workers that several inboxes share. Its workers are
// parked here, not at the inboxes, and come to an inbox for a visit.
//
// An inbox that has work, and a free instance to do it, gives the shared pool a
// *token*; a shared pool with tokens has no idle worker. In a shared pool that
// shares one queue the tokens are that queue, and an inbox has no more of them
// in it than free instances. In a polled shared pool they only say that it is
// worth making a round.
//
// A worker of a shared pool never waits for a free slot: the inbox takes its
// commands, beyond the capacity if need be, since the worker that could free
// slots there may be this one. Instead no shared pool takes from an inbox while
// an inbox ahead of it is full. The last full inbox of a path has none ahead
// that is full, so there is always an inbox to take from.
//
// A shared pool's lock is taken while an inbox's is held, never the other way
// round.
type SharedPool struct {
	workerSet // guarded by mu

	name     string
	pipeline *Pipeline
	mode     atomic.Uint32 // controller.Dispatch

	rounds, visits, empties atomic.Uint64
	reportEvery             atomic.Int64 // after how many visits the pipeline is notified; 0: never
	noted                   atomic.Int32 // inboxes with a token, in a polled shared pool; written with mu
	route                   atomic.Pointer[route]

	mu      sync.Mutex // guards all below
	members []*Inbox
	ready   tokens
	seq     uint64
}

// NewSharedPool returns a shared pool without workers and inboxes.
func NewSharedPool(name string, pl *Pipeline) *SharedPool {
	sp := &SharedPool{name: name, pipeline: pl}
	sp.mode.Store(uint32(controller.SharedFIFO))
	sp.route.Store(newRoute(nil, nil))
	return sp
}

// Name returns the pool's name.
func (sp *SharedPool) Name() string { return sp.name }

// Dispatch says how the workers choose among the inboxes.
func (sp *SharedPool) Dispatch() controller.Dispatch { return controller.Dispatch(sp.mode.Load()) }

func (sp *SharedPool) polled() bool { return sp.Dispatch() == controller.Polled }

// route is a visit plan with the inboxes it leads to.
type route struct {
	plan  *controller.VisitPlan
	order []*Inbox
	ended *atomic.Bool // a worker ended a round; shared by all routes of one plan
}

// newRoute follows a plan through the inboxes of a shared pool. Inboxes that
// the plan leaves out are put at the end.
func newRoute(plan *controller.VisitPlan, members []*Inbox) *route {
	rt := &route{plan: plan, ended: new(atomic.Bool)}
	if plan != nil {
		for _, s := range plan.Order {
			if i := slices.IndexFunc(members, func(in *Inbox) bool { return in.Place == int(s) }); i >= 0 {
				rt.order = append(rt.order, members[i])
			}
		}
	}
	for _, in := range members {
		if !slices.Contains(rt.order, in) {
			rt.order = append(rt.order, in)
		}
	}
	return rt
}

// Plan returns the visit plan, nil if none was given.
func (sp *SharedPool) Plan() *controller.VisitPlan { return sp.route.Load().plan }

// SetPlan gives the shared pool a visit plan.
func (sp *SharedPool) SetPlan(plan *controller.VisitPlan) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.route.Store(newRoute(plan, sp.members))
}

// ReportVisits asks for [Pipeline].Visited after every n visits; 0 and less for
// none.
func (sp *SharedPool) ReportVisits(n int) { sp.reportEvery.Store(int64(max(n, 0))) }

// unlock ends a transition of the shared pool. All that it asks for is to wake
// workers.
func (sp *SharedPool) unlock(fx *effects) {
	sp.mu.Unlock()
	if fx.wake != nil {
		fx.wake.Wake()
	}
	if fx.others != nil {
		fx.others.wakeAll()
	}
}

// Pool returns the pool that visits the inbox, nil if it has workers of its
// own.
func (st Settings) Pool() *SharedPool {
	st.in.mu.Lock()
	defer st.in.mu.Unlock()
	return st.in.state.visits.pool
}

// Inboxes returns the inboxes, in the order of the pipeline.
func (sp *SharedPool) Inboxes() []*Inbox {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return slices.Clone(sp.members)
}

// workers is how many workers there are.
func (sp *SharedPool) workers() int {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.live
}

// Len returns how many commands are queued in all its inboxes.
func (sp *SharedPool) Len() (n int) {
	for _, in := range sp.Inboxes() {
		n += in.Len()
	}
	return n
}

// PoolAccounts is a copy of a shared pool's accounts.
type PoolAccounts struct {
	Live, Most              int
	Rounds, Visits, Empties uint64
}

// Accounts copies the accounts.
func (sp *SharedPool) Accounts() PoolAccounts {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return PoolAccounts{
		Live: sp.live, Most: sp.most,
		Rounds: sp.rounds.Load(), Visits: sp.visits.Load(), Empties: sp.empties.Load(),
	}
}

// token is an inbox's place in the shared queue.
type token struct {
	inbox    *Inbox
	era      uint64
	priority int
	seq      uint64
}

// tokens is the shared queue: by priority, then first in, first out. It is not
// a container/heap, which allocates an interface value for each token.
type tokens []token

// before reports whether the token at i comes before the one at j.
func (q *tokens) before(i, j int) bool {
	a, b := &(*q)[i], &(*q)[j]
	return a.priority > b.priority || a.priority == b.priority && a.seq < b.seq
}

func (q *tokens) push(t token) {
	*q = append(*q, t)
	all := *q
	for i := len(all) - 1; i > 0; {
		parent := (i - 1) / 2
		if !all.before(i, parent) {
			return
		}
		all[i], all[parent] = all[parent], all[i]
		i = parent
	}
}

func (q *tokens) pop() token {
	all := *q
	first, last := all[0], len(all)-1
	all[0], all[last] = all[last], token{}
	*q = all[:last]
	q.sink(0)
	return first
}

func (q *tokens) sink(i int) {
	all := *q
	for {
		child := 2*i + 1
		if child >= len(all) {
			return
		}
		if child+1 < len(all) && q.before(child+1, child) {
			child++
		}
		if !q.before(child, i) {
			return
		}
		all[i], all[child] = all[child], all[i]
		i = child
	}
}

// drop removes all tokens of an inbox.
func (q *tokens) drop(in *Inbox) {
	*q = slices.DeleteFunc(*q, func(t token) bool { return t.inbox == in })
	for i := len(*q)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
}

// add takes an inbox's token, and calls a worker for it. The inbox's lock is
// held.
func (sp *SharedPool) add(s *state, how controller.Dispatch, fx *effects) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	switch how {
	case controller.Polled:
		if !s.visits.noted {
			s.visits.noted = true
			sp.noted.Add(1)
		}
	case controller.SharedPriority:
		sp.seq++
		sp.ready.push(token{s.self, s.visits.era, s.knobs.Priority, sp.seq})
	default:
		sp.seq++
		sp.ready.push(token{s.self, s.visits.era, 0, sp.seq})
	}
	fx.wakeWorker(sp.callIdle())
}

// addTokens gives the shared pool a token for each worker that would find work
// here now. It is called whenever there may be more work.
func (s *state) addTokens(fx *effects) {
	if !s.servable() {
		return
	}
	// The mode is read once: it may change at any time, and then all tokens are
	// taken back.
	how := s.visits.pool.Dispatch()
	want := int32(1)
	if how != controller.Polled {
		free := s.knobs.Instances - s.instances.busy
		want = int32(min(s.available(), free, math.MaxInt32))
	}
	for s.visits.tokens.Load() < want {
		s.visits.tokens.Add(1)
		s.visits.pool.add(s, how, fx)
	}
}

// servable reports whether a worker of the shared pool would find something to
// do here.
func (s *state) servable() bool {
	return s.available() > 0 && !s.visits.stalled && !s.visits.resting && !s.halted.Load() &&
		s.instances.busy < s.knobs.Instances && s.instances.available(s.knobs.Instances) && !s.lingering()
}

// voidTokens takes the inbox's tokens back: the tokens in the shared pool, and
// the tokens of workers on their way.
func (s *state) voidTokens() {
	s.visits.era++
	s.visits.tokens.Store(0)
	if s.visits.pool == nil {
		return
	}
	s.removeNote()
	s.visits.pool.dropTokens(s.self)
}

// removeNote takes back the token of a polled pool, which only says that there
// is work.
func (s *state) removeNote() {
	if s.visits.noted {
		s.visits.noted = false
		s.visits.pool.noted.Add(-1)
	}
}

// dropTokens drops an inbox's tokens.
func (sp *SharedPool) dropTokens(in *Inbox) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.ready.drop(in)
}

// pending reports whether an inbox has given a token.
func (sp *SharedPool) pending() bool { return len(sp.ready) > 0 || sp.noted.Load() > 0 }

// callIdle picks an idle worker to be woken, nil if there is none.
func (sp *SharedPool) callIdle() *Member {
	return sp.pickIdle(func(*Member) bool { return true })
}

// A shared worker never waits for a free slot, so its pool does not take from
// an inbox while an inbox ahead is full: the inbox is *stalled*. The full one
// keeps a list of the inboxes that it stalls, and unstalls them when half of it
// is free.

// Ahead notes that an edge leads to another inbox. Back edges are not noted: no
// worker waits along them.
func (st Settings) Ahead(to *Inbox) {
	for {
		old := st.in.state.ahead.Load()
		var known []*Inbox
		if old != nil {
			known = *old
		}
		if to == st.in || slices.Contains(known, to) {
			return
		}
		grown := append(slices.Clip(known), to)
		if st.in.state.ahead.CompareAndSwap(old, &grown) {
			return
		}
	}
}

// NotAhead notes that no edge leads to another inbox any more. No lock is held.
func (st Settings) NotAhead(to *Inbox) {
	for {
		old := st.in.state.ahead.Load()
		if old == nil || !slices.Contains(*old, to) {
			return
		}
		rest := slices.DeleteFunc(slices.Clone(*old), func(o *Inbox) bool { return o == to })
		if st.in.state.ahead.CompareAndSwap(old, &rest) {
			st.in.unstall() // it may have been the other that had it wait; if not, the next visit stalls it again
			return
		}
	}
}

// Forks reports whether edges lead to several inboxes ahead, as far as is
// known.
func (st Settings) Forks() bool {
	ahead := st.in.state.ahead.Load()
	return ahead != nil && len(*ahead) > 1
}

// aheadFull reports whether an inbox ahead is full, or takes nothing from this
// one, so that no shared pool may take from this one. If so, the inbox ahead
// will unstall it. No lock is held.
func (in *Inbox) aheadFull() bool {
	ahead := in.state.ahead.Load()
	if ahead == nil {
		return false
	}
	for _, other := range *ahead {
		if !other.isFullFor(in) || !in.stallBehind(other) {
			continue
		}
		if slices.Contains(*in.state.ahead.Load(), other) {
			return true
		}
		in.unstall() // no edge leads there any more, and NotAhead may have come too early to do this
	}
	return false
}

// isFullFor reports whether an inbox behind must wait. One that has waited has
// a pass for one visit, for submitters may have filled the inbox again
// meanwhile.
func (in *Inbox) isFullFor(behind *Inbox) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.state.bars(behind, false) && !in.state.halted.Load() {
		return true
	}
	return in.state.isOverFor(behind) || in.state.isFull() && !in.state.usePass(behind)
}

// stallBehind stalls the inbox until another, ahead, has free slots. It returns
// false if that has some already.
func (in *Inbox) stallBehind(other *Inbox) bool {
	in.mu.Lock()
	in.state.visits.stalled = true // before the other is asked, so that it cannot unstall this one too early
	in.mu.Unlock()
	other.mu.Lock()
	waits := other.state.isFull() || other.state.isOverFor(in) || other.state.bars(in, false) && !other.state.halted.Load()
	if waits && !slices.Contains(other.state.visits.behind, in) {
		other.state.visits.behind = append(other.state.visits.behind, in)
	}
	other.mu.Unlock()
	if !waits {
		in.unstall()
	}
	return waits
}

// unstall lets the shared pool take from the inbox again.
func (in *Inbox) unstall() {
	var fx effects
	in.mu.Lock()
	in.state.visits.stalled = false
	in.state.callWorker(&fx)
	in.unlock(&fx)
}
