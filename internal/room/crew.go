package room

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/controller"
)

// Crew is a pool of workers that several rooms share. Its workers are parked here,
// not in the rooms, and come to a room for a visit.
//
// A room that has work, and a free instance to do it, gives the crew a *token*; a
// crew with tokens has no idle worker. In a crew that shares one queue the tokens
// are that queue, and a room has no more of them in it than free instances. In a
// polled crew they only tell that it is worth going round.
//
// A worker of a crew never waits for room: what it hands over is let in, beyond the
// capacity if need be, since who could make room there may be the worker itself.
// Instead no crew takes from a room while a room ahead of it is full. The last full
// room of a way has none ahead, so there is always one to go on with.
//
// A crew's lock is taken within a room's, never the other way round.
type Crew struct {
	gang // guarded by mu

	name string
	host *Host
	mode atomic.Uint32 // controller.Dispatch

	rounds, visits, empties atomic.Uint64
	tell                    atomic.Int64 // how many visits are told of at once; 0: none
	noted                   atomic.Int32 // rooms with a token, in a polled crew; written with mu
	route                   atomic.Pointer[route]

	mu      sync.Mutex // guards all below
	members []*Room
	ready   tokens
	seq     uint64
}

// NewCrew returns a crew without workers and rooms.
func NewCrew(name string, h *Host) *Crew {
	c := &Crew{name: name, host: h}
	c.mode.Store(uint32(controller.SharedFIFO))
	c.route.Store(newRoute(nil, nil))
	return c
}

// Name is the pool's name.
func (c *Crew) Name() string { return c.name }

// Dispatch is how the workers choose.
func (c *Crew) Dispatch() controller.Dispatch { return controller.Dispatch(c.mode.Load()) }

func (c *Crew) polled() bool { return c.Dispatch() == controller.Polled }

// visit is what a worker of a crew knows of its way.
type visit struct {
	at      *Room // where it is; nil between visits
	route   *route
	walk    controller.Walk
	empty   int  // places in a row with nothing to do
	walked  bool // it came along its route, not with a token
	handled int  // in this visit
	queued  int  // when it began
	began   int64
}

// route is a visit plan with the rooms it leads to.
type route struct {
	plan  *controller.VisitPlan
	order []*Room
	ended *atomic.Bool // a worker ended a round; shared by all routes of one plan
}

// newRoute follows a plan through the members of a crew. Whom the plan leaves out
// comes at the end.
func newRoute(plan *controller.VisitPlan, members []*Room) *route {
	rt := &route{plan: plan, ended: new(atomic.Bool)}
	if plan != nil {
		for _, s := range plan.Order {
			if i := slices.IndexFunc(members, func(r *Room) bool { return r.Place == int(s) }); i >= 0 {
				rt.order = append(rt.order, members[i])
			}
		}
	}
	for _, r := range members {
		if !slices.Contains(rt.order, r) {
			rt.order = append(rt.order, r)
		}
	}
	return rt
}

// Plan is the visit plan, nil if none was given.
func (c *Crew) Plan() *controller.VisitPlan { return c.route.Load().plan }

// Follow gives the crew a visit plan.
func (c *Crew) Follow(plan *controller.VisitPlan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.route.Store(newRoute(plan, c.members))
}

// Tell asks for [Host].Visited after every n visits; 0 and less for none.
func (c *Crew) Tell(n int) { c.tell.Store(int64(max(n, 0))) }

// Choose says how the workers choose among the rooms.
func (c *Crew) Choose(m controller.Dispatch) {
	if c.mode.Swap(uint32(m)) == uint32(m) {
		return
	}
	c.mu.Lock()
	members := slices.Clone(c.members)
	c.mu.Unlock()
	for _, r := range members {
		r.renote()
	}
}

// renote gives the room's crew fresh tokens for old ones.
func (r *Room) renote() {
	r.mu.Lock()
	r.void()
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Bind has the crew's workers visit the room; nil gives it back to its own.
func (r *Room) Bind(c *Crew) {
	r.mu.Lock()
	if r.crew == c {
		r.mu.Unlock()
		return
	}
	r.void()
	old := r.crew
	r.crew, r.stalled = c, false
	if old != nil {
		old.strike(r)
	}
	if c != nil {
		c.enlist(r)
	}
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Crew returns the pool that visits the room, nil if it has workers of its own.
func (r *Room) Crew() *Crew {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.crew
}

func (c *Crew) strike(r *Room) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = slices.DeleteFunc(c.members, func(o *Room) bool { return o == r })
	c.reroute()
}

func (c *Crew) enlist(r *Room) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.members, r.Place, func(o *Room, place int) int { return o.Place - place })
	c.members = slices.Insert(c.members, i, r)
	c.reroute()
}

// reroute fits the plan to the members. It is no new plan, so its end is told once
// only.
func (c *Crew) reroute() {
	old := c.route.Load()
	fresh := newRoute(old.plan, c.members)
	fresh.ended = old.ended
	c.route.Store(fresh)
}

// Members are the rooms, in the order of the pipeline.
func (c *Crew) Members() []*Room {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

// hands is how many workers there are.
func (c *Crew) hands() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live
}

// Len is the length of the crew's mailbox: of all its rooms' queues.
func (c *Crew) Len() (n int) {
	for _, r := range c.Members() {
		n += r.Len()
	}
	return n
}

// CrewSheet is a copy of a crew's accounts.
type CrewSheet struct {
	Live, Most              int
	Rounds, Visits, Empties uint64
}

// Sheet copies the accounts.
func (c *Crew) Sheet() CrewSheet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CrewSheet{
		Live: c.live, Most: c.most,
		Rounds: c.rounds.Load(), Visits: c.visits.Load(), Empties: c.empties.Load(),
	}
}

// Join seats a worker.
func (c *Crew) Join(s *Seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.join(s)
	s.visit = new(visit)
}

// Leave takes a worker off its seat, and ends its visit if it is at one. If there is
// something to do, another worker is called for it.
func (c *Crew) Leave(s *Seat, t *Tally) {
	if s.visit != nil && s.at != nil {
		c.stay(s.at, s, t, true)
	}
	c.mu.Lock()
	var next *Seat
	if c.part(s) && c.pending() {
		next = c.callIdle()
	}
	c.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Shrink asks n workers to leave.
func (c *Crew) Shrink(n int) {
	c.mu.Lock()
	woken := c.shrink(n)
	c.mu.Unlock()
	wakeAll(woken)
}

// Keep takes back up to n requests to leave that nobody has followed yet, and
// returns how many.
func (c *Crew) Keep(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keep(n)
}

// Spare reports whether one worker less is wanted, and takes note that it is gone.
func (c *Crew) Spare() bool { return c.Keep(1) == 1 }

// Muster forgets requests to leave, and the rooms' streaks of crashes. It is called when
// no worker is left.
func (c *Crew) Muster() {
	c.mu.Lock()
	c.excess = 0
	members := slices.Clone(c.members)
	c.mu.Unlock()
	for _, r := range members {
		r.Forgive()
	}
}

// CrashIdle is for a worker that ended between two rooms: no room is to blame.
func (c *Crew) CrashIdle() {}

// pending reports whether a room has given a token.
func (c *Crew) pending() bool { return len(c.ready) > 0 || c.noted.Load() > 0 }

func (c *Crew) callIdle() *Seat {
	return c.call(func(*Seat) bool { return true })
}

// token is a room's place in the shared queue.
type token struct {
	room     *Room
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

// drop takes all tokens of a room out.
func (q *tokens) drop(r *Room) {
	*q = slices.DeleteFunc(*q, func(t token) bool { return t.room == r })
	for i := len(*q)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
}

// add takes a room's token, and calls a worker for it. The room's lock is held.
func (c *Crew) add(r *Room, m controller.Dispatch) {
	c.mu.Lock()
	switch m {
	case controller.Polled:
		if !r.noted {
			r.noted = true
			c.noted.Add(1)
		}
	case controller.SharedPriority:
		c.seq++
		c.ready.push(token{r, r.era, r.knobs.Priority, c.seq})
	default:
		c.seq++
		c.ready.push(token{r, r.era, 0, c.seq})
	}
	next := c.callIdle()
	c.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// note gives the crew as many tokens as there is work for, and can be done at once.
// It is called with the room's lock whenever one of these may have become more.
func (r *Room) note() {
	if !r.servable() {
		return
	}
	// Asked once: it may change at any time, and then all tokens are taken back.
	mode := r.crew.Dispatch()
	want := int32(1)
	if mode != controller.Polled {
		free := r.knobs.Instances - r.out
		want = int32(min(r.due(), free, math.MaxInt32))
	}
	for r.tokens.Load() < want {
		r.tokens.Add(1)
		r.crew.add(r, mode)
	}
}

// servable reports whether a worker of the crew would find something to do here.
func (r *Room) servable() bool {
	return r.due() > 0 && !r.stalled && !r.resting && !r.halted.Load() &&
		r.out < r.knobs.Instances && r.equippable() && !r.lingering()
}

// void takes the room's tokens back: those that the crew has and those that a worker
// is on its way with. The room's lock is held.
func (r *Room) void() {
	r.era++
	r.tokens.Store(0)
	if r.crew == nil {
		return
	}
	r.unnote()
	r.crew.forget(r)
}

// unnote takes back the token that only tells that there is something to do.
func (r *Room) unnote() {
	if r.noted {
		r.noted = false
		r.crew.noted.Add(-1)
	}
}

// forget drops a room's tokens.
func (c *Crew) forget(r *Room) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready.drop(r)
}
