package inbox

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/controller"
)

// SharedPool is a pool of workers that several inboxes share. Its workers are parked here,
// not in the inboxes, and come to an inbox for a visit.
//
// An inbox that has work, and a free instance to do it, gives the shared pool a *token*; a
// shared pool with tokens has no idle worker. In a shared pool that shares one queue the tokens
// are that queue, and an inbox has no more of them in it than free instances. In a
// polled shared pool they only tell that it is worth going round.
//
// A worker of a shared pool never waits for room: what it hands over is let in, beyond the
// capacity if need be, since who could make room there may be the worker itself.
// Instead no shared pool takes from an inbox while an inbox ahead of it is full. The last full
// room of a way has none ahead, so there is always one to go on with.
//
// A shared pool's lock is taken within an inbox's, never the other way round.
type SharedPool struct {
	workerSet // guarded by mu

	name string
	host *Pipeline
	mode atomic.Uint32 // controller.Dispatch

	rounds, visits, empties atomic.Uint64
	tell                    atomic.Int64 // how many visits are told of at once; 0: none
	noted                   atomic.Int32 // inboxes with a token, in a polled shared pool; written with mu
	route                   atomic.Pointer[route]

	mu      sync.Mutex // guards all below
	members []*Inbox
	ready   tokens
	seq     uint64
}

// NewSharedPool returns a shared pool without workers and inboxes.
func NewSharedPool(name string, pl *Pipeline) *SharedPool {
	sp := &SharedPool{name: name, host: pl}
	sp.mode.Store(uint32(controller.SharedFIFO))
	sp.route.Store(newRoute(nil, nil))
	return sp
}

// Name is the pool's name.
func (sp *SharedPool) Name() string { return sp.name }

// Dispatch is how the workers choose.
func (sp *SharedPool) Dispatch() controller.Dispatch { return controller.Dispatch(sp.mode.Load()) }

func (sp *SharedPool) polled() bool { return sp.Dispatch() == controller.Polled }

// visit is what a worker of a shared pool knows of its way.
type visit struct {
	at      *Inbox // where it is; nil between visits
	route   *route
	walk    controller.Walk
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

// newRoute follows a plan through the members of a shared pool. Whom the plan leaves out
// comes at the end.
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

// Plan is the visit plan, nil if none was given.
func (sp *SharedPool) Plan() *controller.VisitPlan { return sp.route.Load().plan }

// SetPlan gives the shared pool a visit plan.
func (sp *SharedPool) SetPlan(plan *controller.VisitPlan) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.route.Store(newRoute(plan, sp.members))
}

// ReportVisits asks for [Pipeline].Visited after every n visits; 0 and less for none.
func (sp *SharedPool) ReportVisits(n int) { sp.tell.Store(int64(max(n, 0))) }

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
	in.mu.Lock()
	in.voidTokens()
	next := in.wakeOne()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Bind has the shared pool's workers visit the inbox; nil gives it back to its own.
func (in *Inbox) Bind(sp *SharedPool) {
	in.mu.Lock()
	if in.pool == sp {
		in.mu.Unlock()
		return
	}
	in.voidTokens()
	old := in.pool
	in.pool, in.stalled = sp, false
	if old != nil {
		old.removeMember(in)
	}
	if sp != nil {
		sp.addInbox(in)
	}
	next := in.wakeOne()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Pool returns the pool that visits the inbox, nil if it has workers of its own.
func (in *Inbox) Pool() *SharedPool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.pool
}

func (sp *SharedPool) removeMember(in *Inbox) {
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

// reroute fits the plan to the members. It is no new plan, so its end is told once
// only.
func (sp *SharedPool) reroute() {
	old := sp.route.Load()
	fresh := newRoute(old.plan, sp.members)
	fresh.ended = old.ended
	sp.route.Store(fresh)
}

// Inboxes are the inboxes, in the order of the pipeline.
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

// Len is the length of the shared pool's mailbox: of all its inboxes' queues.
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

// Join seats a worker.
func (sp *SharedPool) Join(m *Member) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.join(m)
	m.visit = new(visit)
}

// Leave takes a worker off its seat, and ends its visit if it is at one. If there is
// something to do, another worker is called for it.
func (sp *SharedPool) Leave(m *Member, t *Tally) {
	if m.visit != nil && m.at != nil {
		sp.stay(m.at, m, t, true)
	}
	sp.mu.Lock()
	var next *Member
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

// Unshrink takes back up to n requests to leave that nobody has followed yet, and
// returns how many.
func (sp *SharedPool) Unshrink(n int) int {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.unshrink(n)
}

// RetireOne reports whether one worker less is wanted, and takes note that it is gone.
func (sp *SharedPool) RetireOne() bool { return sp.Unshrink(1) == 1 }

// ForgetShrink forgets requests to leave, and the inboxes' streaks of crashes. It is called when
// no worker is left.
func (sp *SharedPool) ForgetShrink() {
	sp.mu.Lock()
	sp.excess = 0
	members := slices.Clone(sp.members)
	sp.mu.Unlock()
	for _, in := range members {
		in.ForgetStreak()
	}
}

// CrashIdle is for a worker that ended between two inboxes: no room is to blame.
func (sp *SharedPool) CrashIdle() {}

// pending reports whether an inbox has given a token.
func (sp *SharedPool) pending() bool { return len(sp.ready) > 0 || sp.noted.Load() > 0 }

func (sp *SharedPool) callIdle() *Member {
	return sp.pickIdle(func(*Member) bool { return true })
}

// token is an inbox's place in the shared queue.
type token struct {
	room     *Inbox
	era      uint64
	priority int
	seq      uint64
}

// tokens is the shared queue: by priority, then first in, first out. It is a heap of our
// own, since that of the standard library makes a value of each token.
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
	*q = slices.DeleteFunc(*q, func(t token) bool { return t.room == in })
	for i := len(*q)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
}

// add takes an inbox's token, and calls a worker for it. The inbox's lock is held.
func (sp *SharedPool) add(in *Inbox, m controller.Dispatch) {
	sp.mu.Lock()
	switch m {
	case controller.Polled:
		if !in.noted {
			in.noted = true
			sp.noted.Add(1)
		}
	case controller.SharedPriority:
		sp.seq++
		sp.ready.push(token{in, in.era, in.knobs.Priority, sp.seq})
	default:
		sp.seq++
		sp.ready.push(token{in, in.era, 0, sp.seq})
	}
	next := sp.callIdle()
	sp.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// addToken gives the shared pool as many tokens as there is work for, and can be done at once.
// It is called with the inbox's lock whenever one of these may have become more.
func (in *Inbox) addToken() {
	if !in.servable() {
		return
	}
	// Asked once: it may change at any time, and then all tokens are taken back.
	mode := in.pool.Dispatch()
	want := int32(1)
	if mode != controller.Polled {
		free := in.knobs.Instances - in.busyInstances
		want = int32(min(in.available(), free, math.MaxInt32))
	}
	for in.tokens.Load() < want {
		in.tokens.Add(1)
		in.pool.add(in, mode)
	}
}

// servable reports whether a worker of the shared pool would find something to do here.
func (in *Inbox) servable() bool {
	return in.available() > 0 && !in.stalled && !in.resting && !in.halted.Load() &&
		in.busyInstances < in.knobs.Instances && in.equippable() && !in.lingering()
}

// voidTokens takes the inbox's tokens back: those that the shared pool has and those that a worker
// is on its way with. The inbox's lock is held.
func (in *Inbox) voidTokens() {
	in.era++
	in.tokens.Store(0)
	if in.pool == nil {
		return
	}
	in.removeTokens()
	in.pool.dropTokens(in)
}

// removeTokens takes back the token that only tells that there is something to do.
func (in *Inbox) removeTokens() {
	if in.noted {
		in.noted = false
		in.pool.noted.Add(-1)
	}
}

// dropTokens drops an inbox's tokens.
func (sp *SharedPool) dropTokens(in *Inbox) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.ready.drop(in)
}
