package policy_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// The kit of the policies of visits: a house is what a controller sees of a pipeline
// with pools, and makes its changes; a trace is the way of one worker by a plan.

// house is a pipeline as far as a controller can tell: what the runtime does between
// two events, without the runtime.
type house struct {
	controller.Snapshot

	law     controller.Policy
	c       controller.Controller
	d       controller.Decisions // of the last question
	journal []controller.Change
	faults  []error
}

// newHouse starts a policy over stages in a line, on two CPUs.
func newHouse(law controller.Policy, stages ...controller.StageStats) *house {
	h := houseOf(stages...)
	h.law, h.c = law, law.New()
	h.ask(controller.EventStart)
	return h
}

// houseOf is a house without a policy. A stage that names a pool is in a group of that name.
func houseOf(stages ...controller.StageStats) *house {
	h := &house{Snapshot: controller.Snapshot{CPUs: 2}}
	for i, st := range stages {
		st.ID = controller.StageID(i)
		if st.Name == "" {
			st.Name = strconv.Itoa(i + 1)
		}
		h.Stages = append(h.Stages, st)
		h.Pools = append(h.Pools, controller.PoolStats{Name: st.Name, Own: true, Workers: 1, MaxWorkers: 9})
	}
	for i := range h.Stages {
		st := &h.Stages[i]
		if st.Pool == "" {
			st.Pool = st.Name
		}
		if h.Pool(st.Pool) == nil {
			h.Pools = append(h.Pools, controller.PoolStats{Name: st.Pool, Group: true, Workers: 3, MaxWorkers: 9})
		}
	}
	h.bind()
	return h
}

// line is n stages, one behind the other.
func line(n int) []controller.StageStats {
	stages := make([]controller.StageStats, n)
	for i := range stages {
		stages[i].Rank = i
		if i+1 < n {
			stages[i].Next = []controller.StageID{controller.StageID(i + 1)}
		}
	}
	return stages
}

// loop says that commands may come back to the stages of these numbers.
func loop(stages []controller.StageStats, numbers ...int) []controller.StageStats {
	for _, n := range numbers {
		stages[n-1].Cyclic = true
	}
	return stages
}

// ask tells an event and makes the changes.
func (h *house) ask(kind controller.EventKind) {
	h.tell(controller.Event{Kind: kind, Stage: controller.NoStage})
}

// tick lets time pass and asks.
func (h *house) tick(after time.Duration) {
	h.At += after
	h.ask(controller.EventTick)
}

// round lets time pass, and then a worker of the pool comes to the end of its plan.
func (h *house) round(after time.Duration, pool string) {
	h.At += after
	h.tell(controller.Event{Kind: controller.EventRoundEnd, Stage: controller.NoStage, Pool: pool})
}

func (h *house) tell(ev controller.Event) {
	if err := controller.Ask(h.c, ev, &h.Snapshot, &h.d); err != nil {
		h.faults = append(h.faults, err)
	}
	changes, faults := controller.Settle(h.law.Name(), &h.Snapshot, &h.d)
	h.faults = append(h.faults, faults...)
	for _, name := range h.d.Pools() {
		if h.Pool(name) == nil {
			h.Pools = append(h.Pools, controller.PoolStats{Name: name, MaxWorkers: controller.MostWorkers})
		}
	}
	for _, c := range changes {
		h.make(c)
	}
	h.bind()
	h.journal = append(h.journal, changes...)
}

func (h *house) make(c controller.Change) {
	switch c.What {
	case controller.KnobWorkers:
		h.Pool(c.StageName).Workers = c.After.(int)
	case controller.KnobDispatch:
		h.Pool(c.StageName).Dispatch = c.After.(controller.Dispatch)
	case controller.KnobVisit:
		h.Pool(c.StageName).Plan = c.After.(*controller.VisitPlan)
	case controller.KnobPool:
		h.Stages[c.Stage].Pool = c.After.(string)
	case controller.KnobPriority:
		h.Stages[c.Stage].Priority = c.After.(int)
	case controller.KnobLimit:
		h.Entry.Limit = c.After.(int)
	default:
		panic(fmt.Sprintf("the house has no knob %q", c.What))
	}
}

// bind has each pool list its stages.
func (h *house) bind() {
	for i := range h.Pools {
		h.Pools[i].Stages = nil
	}
	for i := range h.Stages {
		p := h.Pool(h.Stages[i].Pool)
		p.Stages = append(p.Stages, h.Stages[i].ID)
	}
}

// handled has a stage take commands in, of which it has handled some for so long each.
func (h *house) handled(number, accepted, handled int, each time.Duration) {
	st := &h.Stages[number-1]
	n := controller.Counters{Accepted: uint64(accepted), OK: uint64(handled), Busy: time.Duration(handled) * each}
	st.Window = n
	st.Total.Accepted += n.Accepted
	st.Total.OK += n.OK
	st.Total.Busy += n.Busy
}

// plan is the plan of the shared pool.
func (h *house) plan() *controller.VisitPlan { return h.Pool(policy.SharedPool).Plan }

// order is the order of the shared pool: "1 2 3 2".
func (h *house) order() string { return orderOf(h.plan()) }

func orderOf(p *controller.VisitPlan) string {
	names := make([]string, 0, len(p.Order))
	for _, id := range p.Order {
		names = append(names, strconv.Itoa(int(id)+1))
	}
	return strings.Join(names, " ")
}

// bounds are the bounds of the stages in the shared pool's plan: "8 8 64"; 0 is none.
func (h *house) bounds() string {
	all := make([]string, 0, len(h.Stages))
	for i := range h.Stages {
		all = append(all, strconv.Itoa(h.plan().BoundOf(controller.StageID(i))))
	}
	return strings.Join(all, " ")
}

// sound is the end of a scenario.
func (h *house) sound(t require.TestingT) {
	require.Empty(t, h.faults)
	for _, c := range h.journal {
		require.NotEqual(t, "no reason given", c.Why, c.String())
	}
}

// trace is the way of one worker through stages in a line, by a plan: "1(2) 2(0) |", that is the stage, how
// many commands it handled there, and the end of a round.
func trace(plan *controller.VisitPlan, stages, waiting, rounds int) string {
	queue := make([]int, stages+1) // one more for what has left
	queue[0] = waiting
	var walk controller.Walk
	var way []string
	for rounds > 0 {
		id := plan.Order[walk.At(len(plan.Order))]
		handled := queue[id]
		bound := plan.BoundOf(id)
		if bound > 0 {
			handled = min(handled, bound)
		}
		queue[id] -= handled
		queue[id+1] += handled
		way = append(way, fmt.Sprintf("%d(%d)", id+1, handled))
		if walk.Leave(plan, len(plan.Order), handled, bound > 0 && handled == bound && queue[id] > 0) {
			way = append(way, "|")
			rounds--
		}
	}
	return strings.Join(way, " ")
}

// queued is a command in a shared queue.
type queued struct {
	command string
	stage   int
}

// shared is what workers do that share one queue, in steps of one command each:
// "A1 B1, A2 B2". Each takes the first of those with the highest priority.
func shared(h *house, workers int, commands ...string) string {
	var queue []queued
	for _, c := range commands {
		queue = append(queue, queued{c, 0})
	}
	var steps []string
	for len(queue) > 0 {
		var taken []queued
		for range min(workers, len(queue)) {
			next := 0
			for i := range queue {
				if h.Stages[queue[i].stage].Priority > h.Stages[queue[next].stage].Priority {
					next = i
				}
			}
			taken = append(taken, queue[next])
			queue = slices.Delete(queue, next, next+1)
		}
		var step []string
		for _, q := range taken {
			step = append(step, fmt.Sprintf("%s%d", q.command, q.stage+1))
			if q.stage+1 < len(h.Stages) {
				queue = append(queue, queued{q.command, q.stage + 1})
			}
		}
		steps = append(steps, strings.Join(step, " "))
	}
	return strings.Join(steps, ", ")
}

func TestTheKitTracesAsTheSeedsDo(t *testing.T) {
	inOrder := &controller.VisitPlan{Order: []controller.StageID{0, 1}}
	require.Equal(t, "1(2) 2(2) | 1(0) 2(0) |", trace(inOrder, 2, 2, 2))
}
