package inbox

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/steer"
)

// SharedPool is a pool of workers that several inboxes share. Its workers are parked here, not at the inboxes, and come to an
// inbox for a visit.
//
// An inbox that has work, and a free instance to do it, gives the shared pool a *token*; a shared pool with tokens has no
// idle worker. In a shared pool that shares one queue the tokens are that queue, and an inbox has no more of them in it than
// free instances. In a polled shared pool they only say that it is worth making a round.
//
// A worker of a shared pool never waits for a free slot: the inbox takes what it hands over, beyond the capacity if need be,
// since the worker that could free slots there may be this one. Instead no shared pool takes from an inbox while an inbox ahead
// of it is full. The last full inbox of a path has none ahead that is full, so there is always one to go on with.
//
// A shared pool's lock is taken while an inbox's is held, never the other way round.
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

// visit is what a worker of a shared pool knows about its route.
type visit struct {
	at      *Inbox // where it is; nil between visits
	route   *route
	walk    steer.Walk
	empty   int  // places in a row with nothing to do
	walked  bool // it came along its route, not with a token
	handled int  // in this visit
	queued  int  // when it began
	began   int64
}

// route is a visit plan with the inboxes it leads to.
type route struct {
	plan  *controller.VisitPlan
	order []*Inbox
	ended *atomic.Bool // a worker ended a round; shared by all routes of one plan
}

// newRoute follows a plan through the inboxes of a shared pool. Inboxes that the plan leaves out come at the end.
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

// ReportVisits asks for [Pipeline].Visited after every n visits; 0 and less for none.
func (sp *SharedPool) ReportVisits(n int) { sp.reportEvery.Store(int64(max(n, 0))) }

// SetDispatch says how the workers choose among the inboxes.
func (sp *SharedPool) SetDispatch(m controller.Dispatch) {
	if sp.mode.Swap(uint32(m)) == uint32(m) {
		return
	}
	sp.mu.Lock()
	members := slices.Clone(sp.members)
	sp.mu.Unlock()
	for _, in := range members {
		in.restoreTokens()
	}
}

// restoreTokens gives the inbox's shared pool fresh tokens for old ones.
func (in *Inbox) restoreTokens() {
	var fx effects
	in.mu.Lock()
	in.voidTokens()
	in.callWorker(&fx)
	in.unlock(&fx)
}

// Bind has the shared pool's workers visit the inbox; nil gives it back to the stage's own.
func (in *Inbox) Bind(sp *SharedPool) {
	var fx effects
	in.mu.Lock()
	if in.pool != sp {
		in.voidTokens()
		if in.pool != nil {
			in.pool.removeInbox(in)
		}
		in.pool, in.stalled = sp, false
		if sp != nil {
			sp.addInbox(in)
		}
		in.callWorker(&fx)
	}
	in.unlock(&fx)
}

// Pool returns the pool that visits the inbox, nil if it has workers of its own.
func (in *Inbox) Pool() *SharedPool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.pool
}

func (sp *SharedPool) removeInbox(in *Inbox) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.members = slices.DeleteFunc(sp.members, func(o *Inbox) bool { return o == in })
	sp.reroute()
}

func (sp *SharedPool) addInbox(in *Inbox) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	i, _ := slices.BinarySearchFunc(sp.members, in.Place, func(o *Inbox, place int) int { return o.Place - place })
	sp.members = slices.Insert(sp.members, i, in)
	sp.reroute()
}

// reroute fits the plan to the inboxes. It is no new plan, so the end of its first round is reported once only.
func (sp *SharedPool) reroute() {
	old := sp.route.Load()
	fresh := newRoute(old.plan, sp.members)
	fresh.ended = old.ended
	sp.route.Store(fresh)
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

// Join adds a worker.
func (sp *SharedPool) Join(m *Member) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.join(m)
	m.visit = new(visit)
}

// Leave removes a worker, and ends its visit if it is at an inbox. If there is something to do, another worker is called for
// it.
func (sp *SharedPool) Leave(m *Member, t *Tally) {
	if m.visit != nil && m.at != nil {
		sp.stay(m.at, m, t, true)
	}
	var next *Member
	sp.mu.Lock()
	if sp.depart(m) && sp.pending() {
		next = sp.callIdle()
	}
	sp.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Shrink asks n workers to leave.
func (sp *SharedPool) Shrink(n int) {
	sp.mu.Lock()
	woken := sp.shrink(n)
	sp.mu.Unlock()
	wakeAll(woken)
}

// Unshrink takes back up to n requests to leave that no worker has followed yet, and returns how many.
func (sp *SharedPool) Unshrink(n int) int {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.unshrink(n)
}

// RetireOne reports whether one worker less is wanted, and notes that it is gone.
func (sp *SharedPool) RetireOne() bool { return sp.Unshrink(1) == 1 }

// ForgetShrink forgets requests to leave, and the inboxes' streaks of crashes. It is called when no worker is left.
func (sp *SharedPool) ForgetShrink() {
	sp.mu.Lock()
	sp.excess = 0
	members := slices.Clone(sp.members)
	sp.mu.Unlock()
	for _, in := range members {
		in.ForgetStreak()
	}
}

// CrashIdle is for a worker that ended between two inboxes: no inbox counts it.
func (sp *SharedPool) CrashIdle() {}

// pending reports whether an inbox has given a token.
func (sp *SharedPool) pending() bool { return len(sp.ready) > 0 || sp.noted.Load() > 0 }

// callIdle picks an idle worker to be woken, nil if there is none.
func (sp *SharedPool) callIdle() *Member {
	return sp.pickIdle(func(*Member) bool { return true })
}

// token is an inbox's place in the shared queue.
type token struct {
	inbox    *Inbox
	era      uint64
	priority int
	seq      uint64
}

// tokens is the shared queue: by priority, then first in, first out. It is not a container/heap, which allocates an
// interface value for each token.
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

// drop takes all tokens of an inbox out.
func (q *tokens) drop(in *Inbox) {
	*q = slices.DeleteFunc(*q, func(t token) bool { return t.inbox == in })
	for i := len(*q)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
}

// add takes an inbox's token, and calls a worker for it. The inbox's lock is held.
func (sp *SharedPool) add(s *state, how controller.Dispatch, fx *effects) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	switch how {
	case controller.Polled:
		if !s.noted {
			s.noted = true
			sp.noted.Add(1)
		}
	case controller.SharedPriority:
		sp.seq++
		sp.ready.push(token{s.self, s.era, s.knobs.Priority, sp.seq})
	default:
		sp.seq++
		sp.ready.push(token{s.self, s.era, 0, sp.seq})
	}
	fx.wakeWorker(sp.callIdle())
}

// addTokens gives the shared pool as many tokens as there is work for that can be done at once. It is called whenever there
// may be more of it.
func (s *state) addTokens(fx *effects) {
	if !s.servable() {
		return
	}
	// The mode is read once: it may change at any time, and then all tokens are taken back.
	how := s.pool.Dispatch()
	want := int32(1)
	if how != controller.Polled {
		free := s.knobs.Instances - s.busyInstances
		want = int32(min(s.available(), free, math.MaxInt32))
	}
	for s.tokens.Load() < want {
		s.tokens.Add(1)
		s.pool.add(s, how, fx)
	}
}

// servable reports whether a worker of the shared pool would find something to do here.
func (s *state) servable() bool {
	return s.available() > 0 && !s.stalled && !s.resting && !s.halted.Load() &&
		s.busyInstances < s.knobs.Instances && s.equippable() && !s.lingering()
}

// voidTokens takes the inbox's tokens back: those that the shared pool has and those that a worker is on its way with.
func (s *state) voidTokens() {
	s.era++
	s.tokens.Store(0)
	if s.pool == nil {
		return
	}
	s.removeNote()
	s.pool.dropTokens(s.self)
}

// removeNote takes back the token that only says that there is something to do.
func (s *state) removeNote() {
	if s.noted {
		s.noted = false
		s.pool.noted.Add(-1)
	}
}

// dropTokens drops an inbox's tokens.
func (sp *SharedPool) dropTokens(in *Inbox) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.ready.drop(in)
}
