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
// A shared pool's lock and an inbox's are never held together: tokens are an
// effect of a transition of the inbox; see [tokensGiven].
type SharedPool struct {
	workerSet // guarded by mu

	name     string
	pipeline *Pipeline
	mode     atomic.Uint32 // controller.Dispatch

	rounds, visits, empties atomic.Uint64
	reportEvery             atomic.Int64 // after how many visits the pipeline is notified; 0: never
	noted                   atomic.Int32 // bindings with a note
	alive                   atomic.Int32 // how many workers there are; written with mu
	route                   atomic.Pointer[route]

	mu      sync.Mutex // guards all below
	members []*binding // in the order of the pipeline
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

// binding binds an inbox to the shared pool whose workers visit the inbox. An
// inbox that is bound again gets a binding of its own for that.
type binding struct {
	inbox    *Inbox
	pool     *SharedPool
	priority atomic.Int64  // of its tokens; written with the inbox's lock
	note     atomic.Uint64 // in a polled pool, one more than the era of a token that no worker has taken; 0: there is none
	era      uint64        // the last era that the pool knows of; guarded by the pool's lock
	ended    bool          // guarded by the pool's lock
}

// takeNote takes the token of a polled pool, and returns its era.
func (b *binding) takeNote() (era uint64, ok bool) {
	if b.note.Load() == 0 {
		return 0, false
	}
	note := b.note.Swap(0)
	if note == 0 {
		return 0, false
	}
	b.pool.noted.Add(-1)
	return note - 1, true
}

// route is a visit plan with the inboxes it leads to.
type route struct {
	plan  *controller.VisitPlan
	order []*binding
	ended *atomic.Bool // a worker ended a round; shared by all routes of one plan
}

// newRoute follows a plan through the inboxes of a shared pool. Inboxes that
// the plan leaves out are put at the end.
func newRoute(plan *controller.VisitPlan, members []*binding) *route {
	rt := &route{plan: plan, ended: new(atomic.Bool)}
	if plan != nil {
		for _, s := range plan.Order {
			if i := slices.IndexFunc(members, func(b *binding) bool { return b.inbox.Place == int(s) }); i >= 0 {
				rt.order = append(rt.order, members[i])
			}
		}
	}
	for _, b := range members {
		if !slices.Contains(rt.order, b) {
			rt.order = append(rt.order, b)
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
	return st.in.state.pool()
}

// pool returns the shared pool that visits the inbox, nil if the stage's own
// workers serve it.
func (s *state) pool() *SharedPool {
	if b := s.visits.binding; b != nil {
		return b.pool
	}
	return nil
}

// Inboxes returns the inboxes, in the order of the pipeline.
func (sp *SharedPool) Inboxes() []*Inbox {
	bound := sp.bindings()
	all := make([]*Inbox, len(bound))
	for i, b := range bound {
		all[i] = b.inbox
	}
	return all
}

func (sp *SharedPool) bindings() []*binding {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return slices.Clone(sp.members)
}

// workers is how many workers there are. It needs no lock: transitions of
// inboxes ask.
func (sp *SharedPool) workers() int { return int(sp.alive.Load()) }

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
	of       *binding
	era      uint64
	priority int64
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
func (q *tokens) drop(b *binding) {
	*q = slices.DeleteFunc(*q, func(t token) bool { return t.of == b })
	for i := len(*q)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
}

// tokensGiven are the tokens that an inbox has given its shared pool in one
// transition. The inbox counts them at once, and [Inbox.unlock] delivers them
// when the lock of the inbox is free. Meanwhile another transition may have
// begun a new era, or bound the inbox to another pool: then these tokens are
// void, and the pool drops them, whichever are delivered first.
//
// With n 0, all tokens of older eras are void.
type tokensGiven struct {
	to  *binding // nil: none
	era uint64
	n   int32
}

// deliver gives the pool the tokens, and calls a worker for each. No lock is
// held.
func (g tokensGiven) deliver() {
	sp := g.to.pool
	var fx effects
	sp.mu.Lock()
	if !g.to.ended && g.era >= g.to.era {
		if g.era > g.to.era {
			sp.drop(g.to)
			g.to.era = g.era
		}
		sp.add(g, &fx)
	}
	sp.unlock(&fx)
}

// add adds tokens of the present era. The mode of the pool says where to, even
// if the inbox counted the tokens for another mode: then a new era is about to
// begin; see [SharedPool.SetDispatch].
func (sp *SharedPool) add(g tokensGiven, fx *effects) {
	switch how := sp.Dispatch(); {
	case g.n == 0:
	case how == controller.Polled:
		if g.to.note.Swap(g.era+1) == 0 {
			sp.noted.Add(1)
		}
		fx.wakeWorker(sp.callIdle())
	default:
		priority := int64(0)
		if how == controller.SharedPriority {
			priority = g.to.priority.Load()
		}
		for range g.n {
			sp.seq++
			sp.ready.push(token{g.to, g.era, priority, sp.seq})
			fx.wakeWorker(sp.callIdle())
		}
	}
}

// drop drops the tokens of an inbox. The lock is held.
func (sp *SharedPool) drop(b *binding) {
	sp.ready.drop(b)
	b.takeNote()
}

// addTokens gives the shared pool a token for each worker that would find work
// here now. It is called whenever there may be more work.
func (s *state) addTokens(fx *effects) {
	if !s.servable() {
		return
	}
	want := int32(1)
	if !s.pool().polled() {
		free := s.knobs.Instances - s.instances.busy
		want = int32(min(s.available(), free, math.MaxInt32))
	}
	if n := want - s.visits.tokens; n > 0 {
		s.visits.tokens = want
		fx.giveTokens(s.visits.binding, s.visits.era, n)
	}
}

// servable reports whether a worker of the shared pool would find something to
// do here.
func (s *state) servable() bool {
	return s.available() > 0 && !s.visits.stalled && !s.visits.resting && !s.halted.Load() &&
		s.instances.busy < s.knobs.Instances && s.instances.available(s.knobs.Instances) && !s.lingering()
}

// voidTokens takes the inbox's tokens back: the tokens in the shared pool, the
// tokens that will be delivered there, and the tokens of workers on their way.
func (s *state) voidTokens(fx *effects) {
	s.visits.era++
	s.visits.tokens = 0
	fx.tokens = tokensGiven{to: s.visits.binding, era: s.visits.era}
}

// pending reports whether there is a token that no worker has taken.
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
