package inbox

import (
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
func (in *Inbox) Pool() *SharedPool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.visits.pool
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
