package leda_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/leda"
	"github.com/golda-dev/golda/internal/steer"
)

// world is a pipeline as far as a controller can see it. It applies the settled changes and does what the engine does
// between two calls.
type world struct {
	controller.Snapshot

	t       require.TestingT
	c       controller.Controller
	d       controller.Decisions // of the last call
	changes []controller.Change  // of the last call
	rounds  bool
	visits  int
	every   time.Duration
}

// newWorld has stages s1, s2 and so on in a line, each with two workers of its own of one to eight, ten instances, and
// a capacity of a hundred commands.
func newWorld(t require.TestingT, stages int) *world {
	w := &world{t: t, Snapshot: controller.Snapshot{CPUs: 4}}
	for i := range stages {
		w.add(fmt.Sprintf("s%d", i+1))
	}
	return w
}

func (w *world) add(name string) {
	id := controller.StageID(len(w.Stages))
	w.Stages = append(w.Stages, controller.StageStats{
		ID: id, Name: name, Pool: name, Rank: int(id), QueueCap: 100,
		Workers: 2, MinWorkers: 1, MaxWorkers: 8, Instances: 10, FreeInstances: 10, Enabled: true,
	})
	w.Pools = append(w.Pools, controller.PoolStats{Name: name, Own: true, Workers: 2, MinWorkers: 1, MaxWorkers: 8})
}

// start runs a script in a new world.
func start(t require.TestingT, stages int, script func(l *leda.Leda)) *world {
	w := newWorld(t, stages)
	w.run(script)
	return w
}

func (w *world) run(script func(l *leda.Leda)) {
	w.c = leda.New("script", script).New()
	w.tell(controller.Event{Kind: controller.EventStart})
}

func (w *world) tick(after time.Duration) {
	w.At += after
	w.tell(controller.Event{Kind: controller.EventTick})
}

func (w *world) tell(ev controller.Event) {
	require.NoError(w.t, w.ask(ev))
}

func (w *world) ask(ev controller.Event) error {
	err := controller.Ask(w.c, ev, &w.Snapshot, &w.d)
	changes, faults := controller.Settle("script", &w.Snapshot, &w.d)
	require.Empty(w.t, faults)
	w.changes = changes
	for _, c := range changes {
		require.NotContains(w.t, c.Why, "no reason")
		w.make(c)
	}
	if on, ok := w.d.WantsRoundEnd(); ok {
		w.rounds = on
	}
	if n, ok := w.d.WantsVisits(); ok {
		w.visits = n
	}
	w.every = cmp.Or(w.d.Interval(), w.every)
	return err
}

func (w *world) make(c controller.Change) {
	if c.Stage == controller.NoStage && w.Pool(c.StageName) == nil {
		w.Pools = append(w.Pools, controller.PoolStats{Name: c.StageName, MinWorkers: 1, MaxWorkers: controller.MostWorkers})
	}
	switch c.What {
	case controller.KnobWorkers:
		w.Pool(c.StageName).Workers = c.After.(int)
		if c.Stage >= 0 && w.Stages[c.Stage].Pool == c.StageName {
			w.Stages[c.Stage].Workers = c.After.(int)
		}
	case controller.KnobDispatch:
		w.Pool(c.StageName).Dispatch = c.After.(controller.Dispatch)
	case controller.KnobVisit:
		w.Pool(c.StageName).Plan = c.After.(*controller.VisitPlan)
	default:
		w.turn(&w.Stages[c.Stage], c)
	}
}

func (w *world) turn(st *controller.StageStats, c controller.Change) {
	switch c.What {
	case controller.KnobPool:
		w.move(st, c.After.(string))
	case controller.KnobInstances:
		st.FreeInstances = max(0, st.FreeInstances+c.After.(int)-st.Instances)
		st.Instances = c.After.(int)
	case controller.KnobPriority:
		st.Priority = c.After.(int)
	case controller.KnobCapacity:
		st.QueueCap = c.After.(int)
	case controller.KnobEnabled:
		st.Enabled = c.After.(bool)
	default:
		require.Fail(w.t, "LEDA has no such knob", c.String())
	}
}

// move binds a stage. The numbers of its own workers are shown only while the stage is at its own pool.
func (w *world) move(st *controller.StageStats, pool string) {
	st.Pool, st.Workers, st.MinWorkers, st.MaxWorkers = pool, 0, 0, 0
	if pool == st.Name {
		p := w.Pool(pool)
		st.Workers, st.MinWorkers, st.MaxWorkers = p.Workers, p.MinWorkers, p.MaxWorkers
	}
}

func (w *world) stage(number int) *controller.StageStats { return &w.Stages[number-1] }

// push submits commands, and returns how many are accepted.
func (w *world) push(number, commands int) (taken int) {
	st := w.stage(number)
	if st.Enabled {
		taken = max(0, min(commands, st.QueueCap-st.QueueLen))
	}
	st.QueueLen += taken
	st.Total.Accepted += uint64(taken)
	return taken
}

// pools returns the pools of the stages, and their workers: "s1:2 leda:4 leda:4".
func (w *world) pools() string {
	return w.each(func(st *controller.StageStats) string {
		return fmt.Sprintf("%s:%d", st.Pool, w.Pool(st.Pool).Workers)
	})
}

func (w *world) each(tell func(st *controller.StageStats) string) string {
	var said []string
	for i := range w.Stages {
		said = append(said, tell(&w.Stages[i]))
	}
	return strings.Join(said, " ")
}

// order returns the visit order of the global pool: "1 2 3 2".
func (w *world) order() string {
	before, _, _ := strings.Cut(w.plan().String(), ",")
	return before
}

func (w *world) plan() *controller.VisitPlan { return w.Pool(string(leda.Global)).Plan }

// ways returns the way of one worker of the global pool, with that many commands in the first queue of a line: "1(2)
// 2(2) |" is two visits with two commands each, and a round.
func (w *world) ways(waiting, rounds int) string {
	queue := make([]int, len(w.Stages)+1) // the last is for commands that have left
	queue[0] = waiting
	var walk steer.Walk
	var way []string
	plan := w.plan()
	for rounds > 0 {
		id := plan.Order[walk.At(len(plan.Order))]
		handled, bound := queue[id], plan.BoundOf(id)
		if bound > 0 {
			handled = min(handled, bound)
		}
		queue[id] -= handled
		queue[id+1] += handled
		way = append(way, fmt.Sprintf("%d(%d)", id+1, handled))
		if walk.Leave(plan, len(plan.Order), handled, bound > 0 && handled == bound) {
			way = append(way, "|")
			rounds--
		}
	}
	return strings.Join(way, " ")
}

// serve returns the order in which the workers of the global pool, which share a queue, take the waiting commands, as
// the numbers of the stages. One command waits at each stage, and the first stage's arrived first.
func (w *world) serve() string {
	var served []string
	left := make([]*controller.StageStats, 0, len(w.Stages))
	for i := range w.Stages {
		left = append(left, &w.Stages[i])
	}
	byPriority := w.Pool(string(leda.Global)).Dispatch == controller.SharedPriority
	for len(left) > 0 {
		next := 0
		for i := range left {
			if byPriority && left[i].Priority > left[next].Priority {
				next = i
			}
		}
		served = append(served, left[next].Name)
		left = append(left[:next], left[next+1:]...)
	}
	return strings.Join(served, " ")
}

// inTurn lets a worker of the global pool come to the end of the order.
func (w *world) inTurn(after time.Duration) {
	w.At += after
	w.Pool(string(leda.Global)).Rounds++
	w.tell(controller.Event{Kind: controller.EventRoundEnd, Stage: controller.NoStage, Pool: string(leda.Global)})
}

func TestTheWorldWalksLikeTheDissertation(t *testing.T) {
	w := start(t, 2, (*leda.Leda).UsePrivateQueues)
	require.Equal(t, "1(2) 2(2) | 1(0) 2(0) |", w.ways(2, 2))
	require.Equal(t, "s1 s2", w.serve())
}
