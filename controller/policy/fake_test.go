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
	"github.com/golda-dev/golda/internal/steer"
)

// The test kit of the policies of visits. A fake is a pipeline with pools as a controller sees it, which applies the
// controller's changes; a trace is the way of one worker through a plan.

// fake is a pipeline as far as a controller can see it. It does what the engine does between two events.
type fake struct {
	controller.Snapshot

	law     controller.Policy
	c       controller.Controller
	d       controller.Decisions // of the last call
	journal []controller.Change
	faults  []error
}

// newFake starts a policy over stages in a line, on two CPUs.
func newFake(law controller.Policy, stages ...controller.StageStats) *fake {
	h := fakeOf(stages...)
	h.law, h.c = law, law.New()
	h.ask(controller.EventStart)
	return h
}

// fakeOf returns a fake without a policy. A stage that names a pool is in a group of that name.
func fakeOf(stages ...controller.StageStats) *fake {
	h := &fake{Snapshot: controller.Snapshot{CPUs: 2}}
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

// line returns n stages, one behind the other.
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

// loop marks the stages with these numbers as cyclic.
func loop(stages []controller.StageStats, numbers ...int) []controller.StageStats {
	for _, n := range numbers {
		stages[n-1].Cyclic = true
	}
	return stages
}

// ask calls the controller with an event and applies the changes.
func (h *fake) ask(kind controller.EventKind) {
	h.tell(controller.Event{Kind: kind, Stage: controller.NoStage})
}

// tick lets time pass and makes a tick.
func (h *fake) tick(after time.Duration) {
	h.At += after
	h.ask(controller.EventTick)
}

// round lets time pass, after which a worker of the pool comes to the end of its plan.
func (h *fake) round(after time.Duration, pool string) {
	h.At += after
	h.tell(controller.Event{Kind: controller.EventRoundEnd, Stage: controller.NoStage, Pool: pool})
}

func (h *fake) tell(ev controller.Event) {
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

func (h *fake) make(c controller.Change) {
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
		panic(fmt.Sprintf("the fake pipeline has no knob %q", c.What))
	}
}

// bind lists the stages of each pool.
func (h *fake) bind() {
	for i := range h.Pools {
		h.Pools[i].Stages = nil
	}
	for i := range h.Stages {
		p := h.Pool(h.Stages[i].Pool)
		p.Stages = append(p.Stages, h.Stages[i].ID)
	}
}

// handled lets a stage accept commands, of which it has handled the given number, each in the given time.
func (h *fake) handled(number, accepted, handled int, each time.Duration) {
	st := &h.Stages[number-1]
	n := controller.Counters{Accepted: uint64(accepted), OK: uint64(handled), Busy: time.Duration(handled) * each}
	st.Window = n
	st.Total.Accepted += n.Accepted
	st.Total.OK += n.OK
	st.Total.Busy += n.Busy
}

// plan returns the plan of the shared pool.
func (h *fake) plan() *controller.VisitPlan { return h.Pool(policy.SharedPool).Plan }

// order returns the order of the shared pool: "1 2 3 2".
func (h *fake) order() string { return orderOf(h.plan()) }

func orderOf(p *controller.VisitPlan) string {
	names := make([]string, 0, len(p.Order))
	for _, id := range p.Order {
		names = append(names, strconv.Itoa(int(id)+1))
	}
	return strings.Join(names, " ")
}

// bounds returns the bounds of the stages in the shared pool's plan: "8 8 64"; 0 is no bound.
func (h *fake) bounds() string {
	all := make([]string, 0, len(h.Stages))
	for i := range h.Stages {
		all = append(all, strconv.Itoa(h.plan().BoundOf(controller.StageID(i))))
	}
	return strings.Join(all, " ")
}

// sound ends a scenario and checks the changes.
func (h *fake) sound(t require.TestingT) {
	require.Empty(t, h.faults)
	for _, c := range h.journal {
		require.NotEqual(t, "no reason given", c.Why, c.String())
	}
}

// trace returns the way of one worker through stages in a line by a plan, such as "1(2) 2(0) |": each stage with the
// number of commands handled there, and a bar at the end of a round.
func trace(plan *controller.VisitPlan, stages, waiting, rounds int) string {
	queue := make([]int, stages+1) // one more for what has left
	queue[0] = waiting
	var walk steer.Walk
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

// shared returns what workers of one queue do, in steps of one command each: "A1 B1, A2 B2". Each worker takes the
// first command of those with the highest priority.
func shared(h *fake, workers int, commands ...string) string {
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

func TestTheKitTracesLikeTheDissertation(t *testing.T) {
	inOrder := &controller.VisitPlan{Order: []controller.StageID{0, 1}}
	require.Equal(t, "1(2) 2(2) | 1(0) 2(0) |", trace(inOrder, 2, 2, 2))
}
