package policy_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// gateway is a pipeline of one stage as Shed sees it: of the commands of half a second, as many as pass its Shed are
// queued, and 50 are handled.
type gateway struct {
	controller.Snapshot

	c       controller.Controller
	d       controller.Decisions
	passed  float64 // commands that Shed has admitted, in the last half second
	journal []string
}

func newGateway(law policy.Shed, queued int) *gateway {
	g := &gateway{c: law.New()}
	g.Stages = []controller.StageStats{{Name: "s", QueueLen: queued, QueueCap: 1000, Workers: 2, MinWorkers: 2, MaxWorkers: 2}}
	g.InFlight = queued
	g.ask(controller.EventStart)
	return g
}

func (g *gateway) ask(kind controller.EventKind) {
	if err := controller.Ask(g.c, controller.Event{Kind: kind}, &g.Snapshot, &g.d); err != nil {
		panic(err)
	}
	changes, faults := controller.Settle("shed", &g.Snapshot, &g.d)
	if len(faults) > 0 {
		panic(faults[0])
	}
	for _, c := range changes {
		x, _ := c.After.(controller.Shed)
		if c.Stage == controller.Entry {
			g.Entry.Shed = x
		} else {
			g.Stages[c.Stage].Admission.Shed = x
		}
		g.journal = append(g.journal, c.String())
	}
}

// offer lets half a second pass in which n commands of each priority are offered.
func (g *gateway) offer(n int, priorities ...int) *gateway {
	st := &g.Stages[0]
	g.At += 500 * time.Millisecond
	g.passed = 0
	for _, p := range priorities {
		g.passed += float64(n) * (1 - g.Entry.Shed.Share(p))
	}
	free := st.QueueCap - st.QueueLen + 50
	in := min(int(g.passed), free)
	done := min(50, st.QueueLen+in)
	st.Total.Accepted += uint64(in)
	st.Total.Rejected += uint64(n*len(priorities) - in)
	st.Total.OK += uint64(done)
	st.Total.Busy += time.Duration(done) * 20 * time.Millisecond
	st.QueueLen += in - done
	g.InFlight = st.QueueLen
	if g.Entry.Shed == (controller.Shed{}) {
		g.Priorities = nil
	} else {
		g.Priorities = slices.Repeat(priorities, 1000/max(len(priorities), 1))
	}
	g.ask(controller.EventTick)
	return g
}

func TestShedRefusesAsItsLawSays(t *testing.T) {
	g := newGateway(policy.Shed{After: 1}, 1000)
	var got []string
	for range 8 {
		g.offer(50, 1, 2)
		got = append(got, fmt.Sprintf("%v: %.0f", g.Entry.Shed, g.passed))
	}
	// The first tick sees that the queue stands, and the second that it still does: half of the offered commands are too many. At the third
	// the error is (100 + 25 - 50) / 100, since half of the throughput is for the queue, and more than that is not refused for its sake.
	require.Equal(t, []string{
		"none: 100", "none, but it looks at priorities: 100", "below 2 and 50% of 2: 100", "below 2 and 50% of 2: 25",
		"below 2 and 50% of 2: 25", "below 2 and 50% of 2: 25", "below 2 and 50% of 2: 25", "below 2 and 50% of 2: 25",
	}, got)
	require.Equal(t, "1.5s shed: entry: shed none, but it looks at priorities to below 2 and 50% of 2: "+
		"offered 200/s, done 100/s, 1000 waiting: 75% refused", g.journal[1])
}

// However many commands are offered, once it has settled Shed admits what can be handled, the most important commands first, and hardly any wait.
func TestShedAdmitsWhatCanBeHandled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGateway(policy.Shed{After: time.Second}, rapid.IntRange(0, 1000).Draw(t, "queued"))
		n := rapid.IntRange(60, 2000).Draw(t, "offered")
		priorities := rapid.SliceOfN(rapid.IntRange(-3, 3), 1, 5).Draw(t, "priorities")
		for range 240 {
			g.offer(n, priorities...)
		}
		for range 20 {
			g.offer(n, priorities...)
			require.InDelta(t, 50, g.passed, 8, "%v", g.journal)
			require.InDelta(t, 50, g.Stages[0].QueueLen, 50, "half a second")
		}
		x, lowest := g.Entry.Shed, math.Inf(1)
		for _, p := range priorities { // the share never rises with the priority
			lowest = min(lowest, x.Share(p)) //nolint:staticcheck // min
			for _, q := range priorities {
				if p < q {
					require.GreaterOrEqual(t, x.Share(p), x.Share(q))
				}
			}
		}
		require.Zero(t, x.Probability)
	})
}

func TestShedWaitsUntilTheQueueHasStoodForAWhile(t *testing.T) {
	g := newGateway(policy.Shed{}, 900)
	for range 20 {
		require.Zero(t, g.offer(100, 0).Entry.Shed, g.At)
	}
	require.NotZero(t, g.offer(100, 0).Entry.Shed)

	g = newGateway(policy.Shed{}, 0)
	for i := range 100 { // the queue is empty every five seconds
		n := 60
		if i%10 > 4 {
			n = 30
		}
		require.Zero(t, g.offer(n, 0).Entry.Shed, g.At)
	}
}

func TestShedEndsWhenWorkersAreIdle(t *testing.T) {
	g := newGateway(policy.Shed{After: 1}, 500)
	for range 200 {
		g.offer(100, 0, 1)
	}
	require.NotZero(t, g.Entry.Shed)
	for range 4 {
		g.offer(10, 0, 1)
	}
	require.Zero(t, g.Entry.Shed, g.journal)
	require.Zero(t, g.offer(10, 0, 1).Entry.Shed)
}

func TestShedOfAGroupRefusesAtItsStages(t *testing.T) {
	g := newGateway(policy.Shed{After: 1}, 1000)
	g.Group = "g"
	g.offer(100, 0).offer(100, 0)
	require.Zero(t, g.Entry.Shed)
	require.NotZero(t, g.Stages[0].Admission.Shed)
	g.Stages[0].Priorities = []int{1, 1, 2, 3}
	g.offer(100, 0)
	require.Equal(t, controller.Shed{Below: 3}, g.Stages[0].Admission.Shed, "75 % of them: half are too many, and the queue is to become shorter")
}

// Commands that other stages forward are no load at the entry, and paused stages are no bottleneck.
func TestShedCountsWhatComesFromOutside(t *testing.T) {
	g := newGateway(policy.Shed{After: 1}, 100)
	st := &g.Stages[0]
	st.Before, st.Inflows = []controller.StageID{0}, []uint64{0}
	for range 20 { // 25 from outside and 25 from itself: no more than it can do, and the queue becomes no longer
		g.At += 500 * time.Millisecond
		st.Total.Accepted += 50
		st.Total.Forwarded += 50
		st.Total.Busy += time.Second
		st.Inflows[0] += 25
		g.ask(controller.EventTick)
		require.LessOrEqual(t, g.Entry.Shed.Edge, 0.9, "at least half of the throughput is admitted")
	}
	paused := newGateway(policy.Shed{After: 1}, 1000)
	paused.Stages[0].Paused = true
	for range 20 {
		require.Zero(t, paused.offer(100, 0).Entry.Shed)
	}
}

func TestShedReportsAllFaultsOfItsParameters(t *testing.T) {
	require.NoError(t, policy.Shed{}.Check())
	err := policy.Shed{Interval: -1, After: -1, Target: -1, P: -1, I: math.NaN()}.Check()
	for _, want := range []string{"Interval", "After", "Target", "P -1", "I NaN"} {
		require.ErrorContains(t, err, want)
	}
	require.Error(t, policy.Shed{P: math.Inf(1)}.Check())
}
