package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
)

// NoBound is the Bound of visits that last until the queue is empty. It has a
// name because zero means the default.
//
// A stage to which commands may come back has a bound of 64 all the same: its
// queue may never be empty.
const NoBound = -1

const (
	mostBound  = 64 // the largest bound that is chosen automatically
	usualBound = 8  // the bound if nothing is measured
)

// mostSize is the maximum number of places of a table of visits.
const mostSize = 1 << 12

// Gating names when a visit ends, like [controller.Gating]. The empty Gating is
// the policy's default.
type Gating string

// The four gatings.
const (
	// Exhaustive visits end when the queue is empty.
	Exhaustive Gating = "exhaustive"
	// Gated visits end when the commands that were queued at their start are
	// done.
	Gated Gating = "gated"
	// Bounded visits end at the latest after a number of commands.
	Bounded Gating = "bounded"
	// TimeBounded visits end when their time is over.
	TimeBounded Gating = "time-bounded"
)

// Key names the measure by which a policy orders or weighs stages. Not every
// policy supports all keys; the empty Key is the policy's default.
type Key string

// The keys.
const (
	// ByWork uses the time that handlers need: for the commands that arrive
	// ([LRB]), or for all the work that a command still needs ([SRPT]).
	ByWork Key = "work"
	// ByArrivals uses the number of commands that arrive, whatever they cost.
	ByArrivals Key = "arrivals"
	// ByRank uses the distance of a stage from the sources.
	ByRank Key = "rank"
	// ByService uses how many commands a second a worker handles.
	ByService Key = "service"
	// ByCompletion uses how many commands end for each hundred that arrive.
	ByCompletion Key = "completion"
)

// router is a law of visits: the part in which the policies that share workers
// differ.
type router interface {
	// route draws a plan for the stages of one pool into an empty plan. It
	// reports whether it knows enough for a plan: if not, the drawn plan is
	// used only at the start, and an existing plan stays.
	route(v *view, p *controller.VisitPlan) bool
	// why returns the reason for the plan that was drawn last.
	why(v *view) string
}

// extra is a router that decides more than plans. It is called after all plans.
type extra interface {
	// more makes the further decisions: all of them, or only decisions that
	// differ from the current state.
	more(v *view, all bool, d *controller.Decisions)
}

// view is a router's view of a pool.
type view struct {
	*controller.Snapshot

	members []controller.StageID // the stages of the pool, in the order of the pipeline
	late    []string             // names of the stages that starve
	shared  commons              // the shared pool
}

func (v *view) stage(id controller.StageID) *controller.StageStats { return &v.Stages[id] }

// starves reports whether a stage starves and should be served first.
func (v *view) starves(id controller.StageID) bool { return slices.Contains(v.late, v.Stages[id].Name) }

// byLevel sorts the stages by rank, and then by the order of the pipeline. It
// returns the levels, in the memory of ranks.
func byLevel(ranks []int, v *view) []int {
	ranks = levels(ranks[:0], v.Snapshot)
	slices.SortStableFunc(v.members, func(a, b controller.StageID) int { return cmp.Compare(ranks[a], ranks[b]) })
	return ranks
}

// rhythm says when a plan is drawn again.
type rhythm struct {
	interval time.Duration // when it is that old; 0: only when the topology changes
	rounds   bool          // not before a worker came to its end,
	patience int           // but in any case when it is this many intervals old; 0: never without a round end
	relief   bool          // at once when a stage starves, and again at the next tick
}

// usualPatience is how many intervals a policy waits for the end of a round:
// where workers go back to the first place after each success, no worker may
// ever reach the last one.
const usualPatience = 10

// visits is the controller of every policy of visits. Its router implements the
// policy.
type visits struct {
	gathering
	rhythm
	router

	shared commons
	late   []string // names of the stages that starve
	apart  []string // stages that keep their own workers because the shared pool has too few
	turns  map[string]*turn

	// Scratch memory of one tick. It is kept so that a tick allocates nothing.
	pools []string
	seen  view
	draft controller.VisitPlan
}

// turn is the memory of a pool.
type turn struct {
	ended  bool          // a round of the plan has ended
	stayed bool          // a round had ended at the last tick, too, but the plan stayed; there is only one EventRoundEnd for it
	rounds uint64        // Rounds of the pool at the last tick
	drawn  time.Duration // time of the last tick
}

func newVisits(g gathering, r rhythm, law router) *visits {
	return &visits{gathering: g, rhythm: r, router: law, turns: make(map[string]*turn)}
}

// Control shares the workers out at the start and whenever the topology
// changes, and has the plans drawn again when it is time.
func (c *visits) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	switch ev.Kind {
	case controller.EventStart:
		c.listen(d)
		c.start(s, d)
	case controller.EventTopology:
		c.start(s, d)
	case controller.EventTick:
		relieved := len(c.late) > 0
		c.late = c.late[:0]
		c.update(s, relieved, d)
	case controller.EventRoundEnd:
		if t := c.turns[ev.Pool]; t != nil {
			t.ended = true
		}
		c.update(s, false, d)
	case controller.EventStarved:
		c.help(ev.Stage, s, d)
	default: // other events change nothing: after EventStop decisions have no effect, and later kinds are not known here
	}
}

// listen asks for the events that the rhythm needs.
func (c *visits) listen(d *controller.Decisions) {
	if c.interval > 0 {
		d.Every(c.interval)
	}
	d.OnRoundEnd(c.rounds)
}

// start makes all decisions, whatever the current state is.
func (c *visits) start(s *controller.Snapshot, d *controller.Decisions) {
	c.shared = c.commons(s)
	c.gather(s, c.shared, d)
	c.explain(s, d)
	c.pools = poolsOf(c.pools[:0], s, c.shared)
	clear(c.turns)
	for _, pool := range c.pools {
		v, _ := c.draw(pool, s)
		c.turns[pool] = c.firstTurn(s, pool)
		controller.KnobVisit.SetPool(d, pool, frozen(&c.draft), c.why(v))
	}
	c.rest(s, true, d)
}

// firstTurn returns the initial memory of a pool. If the draft is equal to the
// plan that the pool has, the EventRoundEnd of that plan may have been sent
// already.
func (c *visits) firstTurn(s *controller.Snapshot, pool string) *turn {
	t := &turn{drawn: s.At}
	if is := s.Pool(pool); is != nil && c.patience == 0 {
		t.stayed, t.rounds = c.draft.Equal(is.Plan), is.Rounds
	}
	return t
}

// update draws the plans that are due, or all of them if now is set, and
// decides on the plans that differ from the current ones.
func (c *visits) update(s *controller.Snapshot, now bool, d *controller.Decisions) {
	if c.interval == 0 {
		return
	}
	updated := false
	c.pools = poolsOf(c.pools[:0], s, c.shared)
	for _, pool := range c.pools {
		t, is := c.turns[pool], s.Pool(pool)
		if t == nil || is == nil || !now && !c.due(t, is, s.At) {
			continue
		}
		t.stayed = !c.plan(pool, s, now, d) && (t.ended || t.stayed)
		t.ended = false
		t.rounds, t.drawn, updated = is.Rounds, s.At, true
	}
	if updated {
		c.rest(s, false, d)
	}
}

// due reports whether a plan should be drawn again. After a tick that gave the
// same plan it is due at the next tick, or, with a rhythm of rounds alone,
// after the next round.
func (c *visits) due(t *turn, p *controller.PoolStats, now time.Duration) bool {
	if !c.rounds {
		return true
	}
	age := now - t.drawn
	late := c.patience > 0 && age >= time.Duration(c.patience)*c.interval
	again := t.stayed && (c.patience > 0 || p.Rounds > t.rounds)
	return age >= c.interval && (t.ended || again || late)
}

// help serves a starving stage at once.
func (c *visits) help(id controller.StageID, s *controller.Snapshot, d *controller.Decisions) {
	if !c.relief || !isStage(s, id) || slices.Contains(c.late, s.Stages[id].Name) {
		return
	}
	c.late = append(c.late, s.Stages[id].Name)
	c.update(s, true, d)
}

// plan draws the plan of a pool, and decides on it if it differs from the
// current one and either the router knew enough or the plan must be drawn. It
// reports whether it decided.
func (c *visits) plan(pool string, s *controller.Snapshot, must bool, d *controller.Decisions) bool {
	v, knows := c.draw(pool, s)
	if !(knows || must) || c.draft.Equal(s.Pool(pool).Plan) {
		return false
	}
	controller.KnobVisit.SetPool(d, pool, frozen(&c.draft), c.why(v))
	return true
}

// draw draws the plan of a pool, and reports whether the router knew enough for
// it.
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

// blank makes the draft the zero plan, but keeps its memory.
func (c *visits) blank() {
	clear(c.draft.Bounds)
	c.draft = controller.VisitPlan{Order: c.draft.Order[:0], Bounds: c.draft.Bounds}
}

// complete appends the stages that an order leaves out. The engine visits them
// anyway; so the plan shows this. An empty order stays empty: it means all.
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

// bounded gives all visits of a plan the same bound, or none if it is
// [NoBound].
func bounded(v *view, p *controller.VisitPlan, bound int) {
	if bound == NoBound {
		exhaust(v, p)
		return
	}
	p.Gating, p.Bound = controller.Bounded, bound
}

// exhaust makes visits last until the queue is empty, except visits to stages
// that commands may reach again.
func exhaust(v *view, p *controller.VisitPlan) {
	p.Gating = controller.Exhaustive
	for _, id := range v.members {
		if v.stage(id).Cyclic {
			p.Gating, p.Bound = controller.Bounded, math.MaxInt32 // practically no bound
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

// boundText formats the bound of a plan for a reason.
func boundText(bound int) string {
	if bound == NoBound {
		return "no bound"
	}
	return fmt.Sprintf("bound %d", bound)
}

// since holds the counters of a stage at the last call of note.
type since struct {
	at    time.Duration
	total controller.Counters
}

// note returns the counts and the time since the last call, and starts again.
func (n *since) note(st *controller.StageStats, now time.Duration) (controller.Counters, time.Duration) {
	window, took := st.Total.Sub(n.total), now-n.at
	n.at, n.total = now, st.Total
	return window, took
}

// mean returns the mean service time in a window, or, if nothing was handled in
// it, since the start.
func mean(st *controller.StageStats, window controller.Counters) time.Duration {
	windowed := controller.StageStats{Window: window, Total: st.Total}
	return windowed.Service()
}

// steady is a measure that changes only when a new value differs from it by
// more than a quarter, so that a little noise decides nothing.
type steady time.Duration

func (m *steady) follow(measured time.Duration) time.Duration {
	now := time.Duration(*m)
	if measured > now+now/4 || (measured > 0 && measured < now-now/4) {
		now = measured
	}
	*m = steady(now)
	return now
}

// sharing returns the knobs that every policy of visits changes.
func sharing(more ...controller.Knob) []controller.Knob {
	return append([]controller.Knob{
		controller.KnobWorkers, controller.KnobPool, controller.KnobDispatch, controller.KnobVisit,
	}, more...)
}

// workersFault returns the fault of a number of workers that no pool can have.
func workersFault(policy string, workers int) error {
	if workers < 0 {
		return fault(policy, true, "Workers %d is negative", workers)
	}
	return fault(policy, workers > controller.MostWorkers, "Workers %d is more than %d", workers, controller.MostWorkers)
}

// stagesIn returns how many stages a plan is for, in words.
func stagesIn(v *view) string {
	if len(v.members) == 1 {
		return "1 stage"
	}
	return fmt.Sprintf("%d stages", len(v.members))
}

// sizeFault returns the fault of a table that is too large.
func sizeFault(policy string, size int) error {
	if size < 0 {
		return fault(policy, true, "Size %d is negative", size)
	}
	return fault(policy, size > mostSize, "Size %d is more than %d", size, mostSize)
}

// boundFault returns the fault of a bound that is negative and not NoBound.
func boundFault(policy string, bound int) error {
	return fault(policy, bound < 0 && bound != NoBound, "Bound %d is negative; use NoBound for none", bound)
}

// measuredBound is the bound of visits in the program behind the tables of the
// dissertation. The program was set to 5, and went on when more than 5 commands
// were handled.
const measuredBound = 6

// originalWorkers returns how many workers the listings of the dissertation
// have, and zero for a policy that is not one of them.
func originalWorkers(preset Preset) int {
	if preset == Cruz || preset == Measured {
		return 2
	}
	return 0
}
