package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
)

// The worker that was called for a token leaves instead.
func TestAWorkerThatLeavesHasAnotherWokenForTheToken(t *testing.T) {
	for name, leave := range map[string]func(p *testPool, w *tester){
		"dismissed": func(p *testPool, w *tester) {
			p.set.excess++ // as if a worker had been asked to leave when none was idle
			require.True(t, p.Arrive(&w.attendance))
			p.Leave(&w.attendance)
		},
		"ended": func(p *testPool, w *tester) { p.Leave(&w.attendance) },
	} {
		t.Run(name, func(t *testing.T) {
			p, bound := newPool("a")
			workers := joined(t, p, 3)
			bound[0].Deliver(1, 1)
			require.Equal(t, 1, workers[2].woken)
			leave(p, workers[2])
			require.Equal(t, 1, workers[1].woken)
			require.Equal(t, 2, p.Workers())
		})
	}
}

func TestAWorkerThatWasGivenUpIsNoWorkerAnyMore(t *testing.T) {
	p, _ := newPool("a")
	workers := joined(t, p, 2)
	p.Abandon(&workers[0].attendance)
	p.Abandon(&workers[0].attendance)
	require.Equal(t, Accounts{Live: 1, Most: 2}, p.Accounts())
	set, _, _ := p.Inspect()
	require.Equal(t, workers[1:], set.Idle)
}

func TestNoWorkerParksWhileThereIsATokenOrOneMustLeave(t *testing.T) {
	for _, mode := range modes {
		p, bound := newPool("a")
		p.SetDispatch(mode)
		w := joined(t, p, 1)[0]
		require.False(t, p.Arrive(&w.attendance))
		bound[0].Deliver(1, 1)
		require.False(t, p.Park(&w.attendance, new(testVisit)))
		require.Equal(t, []string{"a"}, taken(p))
		p.Shrink(1)
		require.False(t, p.Park(&w.attendance, new(testVisit)))
		p.ForgetShrink()
		require.True(t, p.Park(&w.attendance, new(testVisit)))
		require.False(t, w.attendance.Ready())
	}
}

func TestAWorkerThatLooksOnceMoreIsOnItsWay(t *testing.T) {
	p, _ := newPool("a")
	w := joined(t, p, 1)[0]
	require.False(t, p.Arrive(&w.attendance))
	p.LooksOnceMore(&w.attendance)
	require.True(t, w.attendance.Waking())
	require.False(t, p.Arrive(&w.attendance))
	require.False(t, w.attendance.Waking())
}

func TestIdleWorkersAreWokenToLeave(t *testing.T) {
	p, _ := newPool("a")
	workers := joined(t, p, 3)
	p.Shrink(2)
	require.Equal(t, []int{1, 1, 0}, []int{workers[0].woken, workers[1].woken, workers[2].woken})
	require.Equal(t, 1, p.Unshrink(1))
	require.True(t, p.Arrive(&workers[0].attendance))
	require.False(t, p.Arrive(&workers[1].attendance))
}

func TestAPollingWorkerFollowsThePlan(t *testing.T) {
	p, bound := newPool("a", "b", "c")
	p.SetDispatch(controller.Polled)
	p.SetPlan(&controller.VisitPlan{Order: []controller.StageID{2, 9, 0}})
	for _, b := range bound {
		b.Deliver(1, 1)
	}
	require.Equal(t, []string{"c", "a", "b"}, taken(p), "an inbox that the plan leaves out comes last")
}

func TestAPollingWorkerStopsAfterOneRoundWithoutTokens(t *testing.T) {
	p, bound := newPool("a", "b")
	p.SetDispatch(controller.Polled)
	var v testVisit
	b, _ := p.Next(&v)
	require.Nil(t, b)
	require.EqualValues(t, 2, p.Accounts().Visits)
	require.EqualValues(t, 2, p.Accounts().Empties)
	require.EqualValues(t, 1, bound[0].empties.Load())
	b, _ = p.Next(&v)
	require.Nil(t, b)
	require.EqualValues(t, 2, p.Accounts().Visits, "it has made its round already")
}

func TestAPollingWorkerWaitsForInboxes(t *testing.T) {
	p, _ := newPool()
	p.SetDispatch(controller.Polled)
	var v testVisit
	b, _ := p.Next(&v)
	require.Nil(t, b)
	late := p.Bind("late", 0, new(atomic.Uint64))
	late.Deliver(1, 1)
	b, _ = p.Next(&v)
	require.Same(t, late, b)
}

// Each worker ends its own rounds; the first end of a round of a plan is reported, also if inboxes have come meanwhile.
func TestTheFirstEndOfARoundIsReportedOnceForEachPlan(t *testing.T) {
	ends := 0
	p := New[tester, string]("pool", Events[tester]{Wake: (*tester).wake, RoundEnd: func() { ends++ }, Visited: func() {}})
	p.SetDispatch(controller.Polled)
	p.Bind("a", 0, new(atomic.Uint64))
	round := func() {
		var v testVisit
		b, _ := p.Next(&v)
		require.Nil(t, b)
	}
	round()
	round()
	require.Equal(t, 1, ends)
	p.Bind("b", 1, new(atomic.Uint64))
	round()
	require.Equal(t, 1, ends)
	p.SetPlan(&controller.VisitPlan{})
	round()
	require.Equal(t, 2, ends)
}

func TestVisitsAreReportedAfterEveryFewOfThem(t *testing.T) {
	reports := 0
	p := New[tester, string]("pool", Events[tester]{Wake: (*tester).wake, RoundEnd: func() {}, Visited: func() { reports++ }})
	var v testVisit
	visit := func(n int) {
		for range n {
			p.EndVisit(&v, false, false)
		}
	}
	visit(3)
	require.Zero(t, reports)
	p.ReportVisits(2)
	visit(3)
	require.Equal(t, 2, reports, "the fourth visit and the sixth")
	p.ReportVisits(-1)
	visit(2)
	require.Equal(t, 2, reports)
	require.Equal(t, Accounts{Visits: 8}, p.Accounts())
}

func TestAPlanBoundsAVisit(t *testing.T) {
	now := int64(0)
	clock := func() int64 { return now }
	for name, c := range map[string]struct {
		plan  *controller.VisitPlan
		polls bool
		steps []int // what is left, after each command
	}{
		"no plan":    {nil, true, []int{0, 0, 0, 0}},
		"exhaustive": {&controller.VisitPlan{}, true, []int{0, 0, 0, 0}},
		"gated":      {&controller.VisitPlan{Gating: controller.Gated}, true, []int{3, 2, 1, -1}},
		"bounded":    {&controller.VisitPlan{Gating: controller.Bounded, Bound: 2}, true, []int{2, 1, -1, -1}},
		"timed":      {&controller.VisitPlan{Gating: controller.TimeBounded, Quantum: 2 * time.Second}, true, []int{0, 0, -1, -1}},
		"of a queue": {&controller.VisitPlan{Gating: controller.Bounded, Bound: 2}, false, []int{2, 1, -1, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			p, bound := newPool("a")
			if c.polls {
				p.SetDispatch(controller.Polled)
			}
			p.SetPlan(c.plan)
			require.Same(t, c.plan, p.Plan())
			bound[0].Deliver(1, 1)
			var v testVisit
			b, _ := p.Next(&v)
			require.Equal(t, c.polls, p.Continues(&v))
			v.Begin(b, 3)
			for i, want := range c.steps {
				got := p.Left(&v, clock)
				require.Equal(t, want, got, "after %d commands", i)
				v.Took(1)
				now += int64(time.Second)
			}
		})
	}
}

// A worker that is in the middle of a round goes on with its own plan, unless the new one is for now.
func TestAWorkerTurnsToAPlanAtTheEndOfItsRoundOrAtOnce(t *testing.T) {
	for _, now := range []bool{false, true} {
		p, bound := newPool("a", "b", "c")
		p.SetDispatch(controller.Polled)
		p.SetPlan(&controller.VisitPlan{})
		for _, b := range bound {
			b.Deliver(1, 1)
		}
		var v testVisit
		b, _ := p.Next(&v)
		require.Equal(t, "a", b.Inbox())
		v.Begin(b, 1)
		v.Took(1)
		p.EndVisit(&v, true, false)
		p.SetPlan(&controller.VisitPlan{Order: []controller.StageID{2, 1, 0}, Now: now})
		b, _ = p.Next(&v)
		require.Equal(t, map[bool]string{false: "b", true: "c"}[now], b.Inbox())
	}
}

// sleeper is a worker with a goroutine that sleeps while it is parked.
type sleeper struct {
	attendance Attendance[sleeper]
	signal     chan struct{}
}

func (w *sleeper) wake() {
	select {
	case w.signal <- struct{}{}:
	default: // it has not taken its turn yet
	}
}

// work takes tokens until the worker must leave, and returns how many.
func (w *sleeper) work(p *Pool[sleeper, string]) (taken int) {
	p.Join(w, &w.attendance)
	defer p.Leave(&w.attendance)
	var v Visit[sleeper, string]
	for !p.Arrive(&w.attendance) {
		for b, _ := p.Next(&v); b != nil; b, _ = p.Next(&v) {
			taken++
			if v.walked {
				v.Begin(b, 1)
				v.Took(1)
				p.EndVisit(&v, true, false)
			}
		}
		if p.Park(&w.attendance, &v) {
			<-w.signal
		}
	}
	return taken
}

// Many goroutines give tokens while workers take them and park. Each token is taken once, and no worker sleeps while there
// is one: the test would never end.
func TestEachTokenIsTakenOnce(t *testing.T) {
	const each, workers = 2000, 3
	for _, mode := range modes {
		none := func() {}
		p := New[sleeper, string]("pool", Events[sleeper]{Wake: (*sleeper).wake, RoundEnd: none, Visited: none})
		p.SetDispatch(mode)
		var taken atomic.Int64
		var all, givers sync.WaitGroup
		for range workers {
			w := &sleeper{signal: make(chan struct{}, 1)}
			all.Go(func() { taken.Add(int64(w.work(p))) })
		}
		for i := range 3 {
			b := p.Bind("x", i, new(atomic.Uint64))
			givers.Go(func() {
				for range each {
					b.Deliver(1, 1)
				}
			})
		}
		givers.Wait()
		for _, _, tokens := p.Inspect(); tokens > 0; _, _, tokens = p.Inspect() {
			runtime.Gosched()
		}
		p.Shrink(workers)
		all.Wait()
		if mode == controller.Polled {
			require.LessOrEqual(t, taken.Load(), int64(3*each), "a note may stand for several tokens")
			continue
		}
		require.EqualValues(t, 3*each, taken.Load())
	}
}
