package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// NoBound is the Bound of visits that last until the queue is empty. It has a name
// because zero means the default.
//
// A stage to which commands may come back has a bound all the same, of 64: its
// queue may never be empty.
const NoBound = -1

const (
	mostBound  = 64 // the most that a bound is by itself
	usualBound = 8  // where there is nothing to go by
)

// mostSize is the most places of a table of visits.
const mostSize = 1 << 12

// Gating names when a visit ends, as [controller.Gating] has it. The empty Gating is
// the policy's default.
type Gating string

// The four ways.
const (
	// Exhaustive visits end when the queue is empty.
	Exhaustive Gating = "exhaustive"
	// Gated visits end when what was queued at their beginning is done.
	Gated Gating = "gated"
	// Bounded visits end at the latest after so many commands.
	Bounded Gating = "bounded"
	// TimeBounded visits end when their time is over.
	TimeBounded Gating = "time-bounded"
)

// Key names what a policy goes by. Not every policy knows every one of them; the
// empty Key is the policy's default.
type Key string

// The keys that there are.
const (
	// ByWork goes by the time that handlers need: for what arrives ([LRB]), or for
	// all that is still before a command ([SRPT]).
	ByWork Key = "work"
	// ByArrivals goes by how many commands arrive, whatever they cost.
	ByArrivals Key = "arrivals"
	// ByRank goes by how far from the sources a stage is.
	ByRank Key = "rank"
	// ByService goes by how many commands a second a worker handles.
	ByService Key = "service"
	// ByCompletion goes by how many commands end of a hundred that arrive.
	ByCompletion Key = "completion"
)

// router is a law of visits: what the policies that share workers differ in.
type router interface {
	// route draws a plan for the stages of one pool, into an empty one. It reports
	// whether it knows enough for it: if not, what it drew is for a beginning, and
	// a plan that is there stays.
	route(v *view, p *controller.VisitPlan) bool
	// why is the reason for what was drawn last.
	why(v *view) string
}

// extra is a router that wants more than plans. It is asked after all plans.
type extra interface {
	// more says the rest: all of it, or only what differs from what is.
	more(v *view, all bool, d *controller.Decisions)
}

// view is what a router looks at.
type view struct {
	*controller.Snapshot

	members []controller.StageID // the stages of the pool, in the order of the pipeline
	late    []string             // the stages that starve, by name
	shared  commons              // the shared pool
}

func (v *view) stage(id controller.StageID) *controller.StageStats { return &v.Stages[id] }

// starves tells whether a stage is to be helped.
func (v *view) starves(id controller.StageID) bool { return slices.Contains(v.late, v.Stages[id].Name) }

// byLevel puts the stages in their order by rank, and then as in the pipeline. It
// returns the levels, whose memory it is given.
func byLevel(ranks []int, v *view) []int {
	ranks = levels(ranks[:0], v.Snapshot)
	slices.SortStableFunc(v.members, func(a, b controller.StageID) int { return cmp.Compare(ranks[a], ranks[b]) })
	return ranks
}

// rhythm is when a plan is drawn anew.
type rhythm struct {
	interval time.Duration // not before it is that old; 0: never, but when stages come and go
	rounds   bool          // and not before somebody came to its end,
	patience int           // but in any case when it is so many intervals old; 0: in no case
	relief   bool          // at once when a stage starves, and again at the next look
}

// usualPatience is how many intervals a policy waits for the end of a round: where
// workers go back to the first place after each success, nobody may ever come to
// the last one.
const usualPatience = 10

// visits is the controller of every policy of visits. The policy is its router.
type visits struct {
	gathering
	rhythm
	router

	shared commons
	late   []string // by name
	apart  []string // stages that keep their own workers because the shared pool has too few
	turns  map[string]*turn

	// Of one look. They are kept so that looking allocates nothing.
	pools []string
	seen  view
	draft controller.VisitPlan
}

// turn is what is remembered of a pool.
type turn struct {
	ended  bool          // a round of the plan has ended
	stayed bool          // it had at the last look, too, and the plan stayed: that is told once
	rounds uint64        // of the pool, at the last look
	drawn  time.Duration // when that was
}

func newVisits(g gathering, r rhythm, law router) *visits {
	return &visits{gathering: g, rhythm: r, router: law, turns: make(map[string]*turn)}
}

// Control shares the workers out at the start and whenever stages come and go, and
// has the plans drawn anew when it is time.
func (c *visits) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		c.listen(d)
		c.begin(s, d)
	case controller.EventTopology:
		c.begin(s, d)
	case controller.EventTick:
		relieved := len(c.late) > 0
		c.late = c.late[:0]
		c.look(s, relieved, d)
	case controller.EventRoundEnd:
		if t := c.turns[ev.Pool]; t != nil {
			t.ended = true
		}
		c.look(s, false, d)
	case controller.EventStarved:
		c.help(ev.Stage, s, d)
	default: // the end asks for nothing, and what comes later is not known here
	}
}

// listen asks for what the rhythm needs.
func (c *visits) listen(d *controller.Decisions) {
	if c.interval > 0 {
		d.Every(c.interval)
	}
	d.OnRoundEnd(c.rounds)
}

// begin says all that is wanted, whatever there is.
func (c *visits) begin(s *controller.Snapshot, d *controller.Decisions) {
	c.shared = c.commons(s)
	c.gather(s, c.shared, d)
	c.explain(s, d)
	c.pools = poolsOf(c.pools[:0], s, c.shared)
	clear(c.turns)
	for _, pool := range c.pools {
		v, _ := c.draw(pool, s)
		c.turns[pool] = c.firstTurn(s, pool)
		d.Visit(pool, frozen(&c.draft), c.why(v))
	}
	c.rest(s, true, d)
}

// firstTurn returns what there is to remember of a pool at the beginning. If the draft is
// the plan that the pool has, the end of its first round may have been told before.
func (c *visits) firstTurn(s *controller.Snapshot, pool string) *turn {
	t := &turn{drawn: s.At}
	if is := s.Pool(pool); is != nil && c.patience == 0 {
		t.stayed, t.rounds = c.draft.Equal(is.Plan), is.Rounds
	}
	return t
}

// look draws the plans for which it is time, or all of them, and says which differ
// from what is.
func (c *visits) look(s *controller.Snapshot, now bool, d *controller.Decisions) {
	if c.interval == 0 {
		return
	}
	looked := false
	c.pools = poolsOf(c.pools[:0], s, c.shared)
	for _, pool := range c.pools {
		t, is := c.turns[pool], s.Pool(pool)
		if t == nil || is == nil || !now && !c.due(t, is, s.At) {
			continue
		}
		t.stayed = !c.plan(pool, s, now, d) && (t.ended || t.stayed)
		t.ended = false
		t.rounds, t.drawn, looked = is.Rounds, s.At, true
	}
	if looked {
		c.rest(s, false, d)
	}
}

// due reports whether a plan is to be drawn anew. After a look that came to the same plan
// that is so at the next tick; with a rhythm of rounds alone, after the next round.
func (c *visits) due(t *turn, p *controller.PoolStats, now time.Duration) bool {
	if !c.rounds {
		return true
	}
	age := now - t.drawn
	late := c.patience > 0 && age >= time.Duration(c.patience)*c.interval
	again := t.stayed && (c.patience > 0 || p.Rounds > t.rounds)
	return age >= c.interval && (t.ended || again || late)
}

// help goes to a stage that starves at once.
func (c *visits) help(id controller.StageID, s *controller.Snapshot, d *controller.Decisions) {
	if !c.relief || !isStage(s, id) || slices.Contains(c.late, s.Stages[id].Name) {
		return
	}
	c.late = append(c.late, s.Stages[id].Name)
	c.look(s, true, d)
}

// plan draws the plan of a pool, and says it if it is a new one: one that is drawn for
// good reasons, or that has to be. It reports whether it did.
func (c *visits) plan(pool string, s *controller.Snapshot, must bool, d *controller.Decisions) bool {
	v, knows := c.draw(pool, s)
	if !(knows || must) || c.draft.Equal(s.Pool(pool).Plan) {
		return false
	}
	d.Visit(pool, frozen(&c.draft), c.why(v))
	return true
}

// draw draws the plan of a pool, and reports whether the router knew enough for it.
func (c *visits) draw(pool string, s *controller.Snapshot) (v *view, knows bool) {
	v = c.view(s)
	v.members = stagesOf(v.members[:0], s, pool, c.shared)
	c.blank()
	knows = c.route(v, &c.draft)
	c.draft.Order = complete(c.draft.Order, v.members)
	return v, knows
}

func (c *visits) rest(s *controller.Snapshot, all bool, d *controller.Decisions) {
	if r, ok := c.router.(extra); ok {
		r.more(c.view(s), all, d)
	}
}

func (c *visits) view(s *controller.Snapshot) *view {
	c.seen.Snapshot, c.seen.late, c.seen.shared = s, c.late, c.shared
	return &c.seen
}

// blank makes the draft the zero plan, with the memory that it has.
func (c *visits) blank() {
	clear(c.draft.Bounds)
	c.draft = controller.VisitPlan{Order: c.draft.Order[:0], Bounds: c.draft.Bounds}
}

// complete appends the stages that an order leaves out. The runtime visits them
// anyhow; so that also shows. An empty order stays empty: it means all.
func complete(order, stages []controller.StageID) []controller.StageID {
	if len(order) == 0 {
		return order
	}
	for _, id := range stages {
		if !slices.Contains(order, id) {
			order = append(order, id)
		}
	}
	return order
}

// bounded gives all visits of a plan the same bound, or none if it is [NoBound].
func bounded(v *view, p *controller.VisitPlan, bound int) {
	if bound == NoBound {
		exhaust(v, p)
		return
	}
	p.Gating, p.Bound = controller.Bounded, bound
}

// exhaust has visits last until the queue is empty, but for those of stages to which
// commands may come back.
func exhaust(v *view, p *controller.VisitPlan) {
	p.Gating = controller.Exhaustive
	for _, id := range v.members {
		if v.stage(id).Cyclic {
			p.Gating, p.Bound = controller.Bounded, math.MaxInt32 // as good as none
			boundOf(p, id, mostBound)
		}
	}
}

func boundOf(p *controller.VisitPlan, id controller.StageID, n int) {
	if p.Bounds == nil {
		p.Bounds = make(map[controller.StageID]int)
	}
	p.Bounds[id] = n
}

// boundText says the bound of a plan for a reason.
func boundText(bound int) string {
	if bound == NoBound {
		return "no bound"
	}
	return fmt.Sprintf("bound %d", bound)
}

// since is what was counted at a stage after the last time that it was noted.
type since struct {
	at    time.Duration
	total controller.Counters
}

// note returns what was counted, and how long that took, and begins anew.
func (n *since) note(st *controller.StageStats, now time.Duration) (controller.Counters, time.Duration) {
	window, took := st.Total.Sub(n.total), now-n.at
	n.at, n.total = now, st.Total
	return window, took
}

// mean is the mean service time in a window, and if nothing was handled in it, since
// the start.
func mean(st *controller.StageStats, window controller.Counters) time.Duration {
	windowed := controller.StageStats{Window: window, Total: st.Total}
	return windowed.Service()
}

// steady is a measure that follows only what differs from it by more than a
// quarter, so that a little noise decides nothing.
type steady time.Duration

func (m *steady) follow(measured time.Duration) time.Duration {
	now := time.Duration(*m)
	if measured > now+now/4 || (measured > 0 && measured < now-now/4) {
		now = measured
	}
	*m = steady(now)
	return now
}

// sharing are the knobs that every policy of visits turns.
func sharing(more ...controller.Knob) []controller.Knob {
	return append([]controller.Knob{
		controller.KnobWorkers, controller.KnobPool, controller.KnobDispatch, controller.KnobVisit,
	}, more...)
}

// workersFault is the fault of a number of workers that no pool can have.
func workersFault(policy string, workers int) error {
	if workers < 0 {
		return fault(policy, true, "Workers %d is negative", workers)
	}
	return fault(policy, workers > controller.MostWorkers, "Workers %d is more than %d", workers, controller.MostWorkers)
}

// stagesIn says how many stages a plan is for.
func stagesIn(v *view) string {
	if len(v.members) == 1 {
		return "1 stage"
	}
	return fmt.Sprintf("%d stages", len(v.members))
}

// sizeFault is the fault of a table that is too large.
func sizeFault(policy string, size int) error {
	if size < 0 {
		return fault(policy, true, "Size %d is negative", size)
	}
	return fault(policy, size > mostSize, "Size %d is more than %d", size, mostSize)
}

// boundFault is the fault of a bound that is neither one nor none.
func boundFault(policy string, bound int) error {
	return fault(policy, bound < 0 && bound != NoBound, "Bound %d is negative; for none say NoBound", bound)
}

// originalWorkers is how many workers the listings of the dissertation have, and
// zero for a policy that is not one of them.
func originalWorkers(preset Preset) int {
	if preset == Cruz {
		return 2
	}
	return 0
}
