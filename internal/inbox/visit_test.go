package inbox

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
)

// There are one worker and three inboxes, each with the given number of commands queued.
func TestAWorkerFollowsItsVisitPlan(t *testing.T) {
	order := func(ids ...controller.StageID) []controller.StageID { return ids }
	tests := map[string]struct {
		plan   *controller.VisitPlan
		queued [3]int
		want   string
	}{
		"no plan":                             {nil, [3]int{2, 1, 2}, "A A B C C -"},
		"exhaustive":                          {&controller.VisitPlan{}, [3]int{2, 1, 2}, "A A B C C -"},
		"another order":                       {&controller.VisitPlan{Order: order(2, 0, 1)}, [3]int{2, 1, 2}, "C C A A B -"},
		"inboxes that are left out come last": {&controller.VisitPlan{Order: order(1)}, [3]int{1, 2, 1}, "B B A C -"},
		"places outside the pool are skipped": {&controller.VisitPlan{Order: order(7, 2, -1)}, [3]int{1, 1, 1}, "C A B -"},
		"a place named twice": {
			&controller.VisitPlan{Order: order(0, 1, 0, 2), Gating: controller.Bounded, Bound: 1},
			[3]int{4, 2, 2},
			"A B A C A B A C -",
		},
		"a bound of zero is one":          {&controller.VisitPlan{Gating: controller.Bounded}, [3]int{2, 1, 2}, "A B C A C -"},
		"bounded":                         {&controller.VisitPlan{Gating: controller.Bounded, Bound: 2}, [3]int{3, 1, 2}, "A A B C C A -"},
		"bounded, one with its own bound": {&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Bounds: map[controller.StageID]int{1: 3}}, [3]int{2, 4, 1}, "A B B B C A B -"},
		"gated":                           {&controller.VisitPlan{Gating: controller.Gated}, [3]int{2, 1, 2}, "A A B C C -"},
		"restart at the first after each success": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Restart: true}, [3]int{2, 2, 1}, "A A B B C -",
		},
		"restart at the second": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Restart: true, RestartAt: 1}, [3]int{2, 2, 1}, "A B B C A -",
		},
		"restart beyond the end": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Restart: true, RestartAt: 9}, [3]int{2, 1, 2}, "A C C A B -",
		},
		"restart before the beginning": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Restart: true, RestartAt: -9}, [3]int{2, 1, 1}, "A A B C -",
		},
		"advance if more is left": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Restart: true, Advance: true}, [3]int{3, 1, 1}, "A B A C A -",
		},
		"restart if the bound was met and nothing is left": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 2, Restart: true, Advance: true}, [3]int{2, 2, 2}, "A A B B C C -",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tb := newTestbed(t, 3)
			tb.polled(test.plan)
			w := tb.addWorker()
			for i, n := range test.queued {
				tb.submitN(i, n)
			}
			require.Equal(t, test.want, strings.Join(w.trail(len(strings.Fields(test.want))), " "))
		})
	}
}

func TestABoundIsMetExactlyWhateverTheBatch(t *testing.T) {
	for bound := 1; bound <= 9; bound++ {
		for batch := 1; batch <= 5; batch++ {
			for _, gating := range []controller.Gating{controller.Bounded, controller.Gated} {
				tb := newTestbed(t, 2, func(c *Config) { c.Batch = batch })
				tb.polled(&controller.VisitPlan{Gating: gating, Bound: bound})
				w := tb.addWorker()
				queued := [2]int{20, 20}
				if gating == controller.Gated {
					queued = [2]int{bound, bound}
				}
				for i, in := range tb.inboxes {
					in.state.pace.limit = batch
					tb.submitN(i, queued[i])
				}
				visit := 0
				for {
					in, cmds := w.turn(false)
					if in != tb.inboxes[0] {
						break
					}
					visit += len(cmds)
					if gating == controller.Gated {
						tb.submitN(0, len(cmds)) // commands that come meanwhile wait for the next visit
					}
				}
				require.Equal(t, bound, visit, "%v, batches of %d", gating, batch)
				require.Equal(t, tb.inboxes[1], w.lastInbox)
			}
		}
	}
}

func TestAnExhaustiveVisitIncludesCommandsThatArriveMeanwhile(t *testing.T) {
	for gating, want := range map[controller.Gating]string{controller.Exhaustive: "A A A B -", controller.Gated: "A B A A -"} {
		tb := newTestbed(t, 2)
		tb.polled(&controller.VisitPlan{Gating: gating})
		w := tb.addWorker()
		tb.submitN(0, 1)
		tb.submitN(1, 1)
		trail := w.trail(1)
		tb.submitN(0, 2)
		trail = append(trail, w.trail(4)...)
		require.Equal(t, want, strings.Join(trail, " "), gating.String())
	}
}

func TestAVisitEndsWithTheBatchInWhichItsTimeIsOver(t *testing.T) {
	for quantum, want := range map[time.Duration]string{
		0:                     "A B A B",
		time.Millisecond:      "A B A B",
		10 * time.Millisecond: "A A A B B B A A",
		12 * time.Millisecond: "A A A B B B A A",
		13 * time.Millisecond: "A A A A B B B B",
	} {
		synctest.Test(t, func(t *testing.T) {
			tb := newTestbed(t, 2)
			tb.polled(&controller.VisitPlan{Gating: controller.TimeBounded, Quantum: quantum})
			w := tb.addWorker()
			tb.submitN(0, 10)
			tb.submitN(1, 10)
			var trail []string
			for range strings.FieldsSeq(want) {
				trail = append(trail, w.trail(1)...)
				time.Sleep(4 * time.Millisecond)
			}
			require.Equal(t, want, strings.Join(trail, " "), quantum)
		})
	}
}

func TestVisitsAndEmptyVisitsAreCounted(t *testing.T) {
	tb := newTestbed(t, 3)
	tb.polled(nil)
	tb.pool.ReportVisits(2)
	w := tb.addWorker()
	tb.submitN(1, 1)
	require.Equal(t, []string{"B", "-"}, w.trail(2))
	s := tb.pool.Accounts()
	require.EqualValues(t, 5, s.Visits, "A, B, C, A, B")
	require.EqualValues(t, 4, s.Empties)
	require.EqualValues(t, 1, s.Rounds)
	require.Equal(t, 2, tb.visitReports)
	for i, empties := range []uint64{2, 1, 1} {
		accounts := Snapshot(tb.inboxes)[i]
		require.Equal(t, empties, accounts.Counts.EmptyVisits)
	}
	require.EqualValues(t, 1, Snapshot(tb.inboxes)[1].Counts.Visits)
	w.turn(true)
	require.EqualValues(t, 5, tb.pool.Accounts().Visits, "it has made its round already")
	w.turn(true)
	require.EqualValues(t, 8, tb.pool.Accounts().Visits, "woken for nothing, it makes one more round")
	require.Equal(t, 4, tb.visitReports)
	tb.pool.ReportVisits(0)
	tb.submitN(0, 9)
	w.trail(20)
	require.Equal(t, 4, tb.visitReports, "no reports are wanted any more")
}

func TestVisitsOfASharedQueueAreCounted(t *testing.T) {
	tb := newTestbed(t, 2)
	tb.pool.ReportVisits(3)
	w := tb.addWorker()
	tb.submitN(0, 3)
	tb.submitN(1, 3)
	w.trail(8)
	s := tb.pool.Accounts()
	require.EqualValues(t, 6, s.Visits)
	require.Zero(t, s.Empties+s.Rounds)
	require.Equal(t, 2, tb.visitReports)
	require.EqualValues(t, 3, Snapshot(tb.inboxes)[0].Counts.Visits)
}

func TestTheFirstEndOfARoundIsReportedOnceForEachPlan(t *testing.T) {
	tb := newTestbed(t, 2)
	tb.polled(&controller.VisitPlan{Gating: controller.Bounded, Bound: 1})
	w, w2 := tb.addWorker(), tb.addWorker()
	tb.submitN(0, 20)
	tb.submitN(1, 20)
	w.trail(2)
	require.Zero(t, tb.rounds)
	w.trail(1)
	require.Equal(t, 1, tb.rounds)
	w.trail(4)
	w2.trail(5)
	require.Equal(t, 1, tb.rounds)
	require.EqualValues(t, 5, tb.pool.Accounts().Rounds)
	plan := &controller.VisitPlan{Gating: controller.Bounded, Bound: 2}
	tb.pool.SetPlan(plan)
	require.Same(t, plan, tb.pool.Plan())
	w.trail(9)
	require.Equal(t, 2, tb.rounds, "the first round of another plan")
}

// B, the last place, has work at each visit, so that the worker always goes back to A.
func TestARoundEndsAtTheLastPlaceEvenIfItsVisitsSucceed(t *testing.T) {
	for full, want := range map[bool]int{false: 1, true: 0} {
		tb := newTestbed(t, 2)
		tb.polled(&controller.VisitPlan{Gating: controller.Bounded, Restart: true, FullRounds: full})
		w := tb.addWorker()
		tb.submitN(1, 5)
		require.Equal(t, []string{"B", "B", "B", "B"}, w.trail(4))
		require.Equal(t, want, tb.rounds, "full rounds: %v", full)
		require.EqualValues(t, 3*want, tb.pool.Accounts().Rounds, "full rounds: %v", full)
		w.trail(3)
		require.Equal(t, 1, tb.rounds, "a pass without success ends a round in any case")
	}
}

func TestANewPlanTakesEffectAfterTheRoundOrNow(t *testing.T) {
	for now, want := range map[bool]string{false: "A B C C B A", true: "A C B A C B"} {
		tb := newTestbed(t, 3)
		tb.polled(&controller.VisitPlan{Gating: controller.Bounded})
		w := tb.addWorker()
		for i := range tb.inboxes {
			tb.submitN(i, 5)
		}
		trail := w.trail(1)
		tb.pool.SetPlan(&controller.VisitPlan{Order: []controller.StageID{2, 1, 0}, Gating: controller.Bounded, Now: now})
		trail = append(trail, w.trail(5)...)
		require.Equal(t, want, strings.Join(trail, " "), "now: %v", now)
	}
}

// A, B and C always have work, so that the worker never passes the end of the plan.
func TestANewPlanIsAdoptedWhenAWalkRestarts(t *testing.T) {
	order := []controller.StageID{2, 1, 0}
	for name, tt := range map[string]struct {
		before, after controller.VisitPlan
		want          string
	}{
		"at the first place": {controller.VisitPlan{Restart: true}, controller.VisitPlan{Order: order, Restart: true}, "A C C C"},
		"at the first place of the new order, wherever the new plan restarts": {
			controller.VisitPlan{Restart: true, RestartAt: 1}, controller.VisitPlan{Order: order, Restart: true, RestartAt: 1}, "A C B B",
		},
		"even if the new plan does not restart": {controller.VisitPlan{Restart: true}, controller.VisitPlan{Order: order}, "A C B A"},
		"not after a visit that advances to the next place": {
			controller.VisitPlan{Restart: true, Advance: true}, controller.VisitPlan{Order: order, Restart: true}, "A B C C",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.before.Gating, tt.after.Gating = controller.Bounded, controller.Bounded
			tb := newTestbed(t, 3)
			tb.polled(&tt.before)
			w := tb.addWorker()
			for i := range tb.inboxes {
				tb.submitN(i, 5)
			}
			trail := w.trail(1)
			tb.pool.SetPlan(&tt.after)
			trail = append(trail, w.trail(3)...)
			require.Equal(t, tt.want, strings.Join(trail, " "))
		})
	}
}

func TestAWorkerVisitsAnInboxThatJoinsThePool(t *testing.T) {
	tb := newTestbed(t, 3)
	tb.inboxes[1].Settings().Bind(nil)
	tb.polled(&controller.VisitPlan{Gating: controller.Bounded})
	w := tb.addWorker()
	for i := range tb.inboxes {
		tb.submitN(i, 4)
	}
	trail := w.trail(1)
	tb.inboxes[1].Settings().Bind(tb.pool)
	trail = append(trail, w.trail(4)...)
	require.Equal(t, "A A B C A", strings.Join(trail, " "))
	require.Equal(t, []*Inbox{tb.inboxes[0], tb.inboxes[1], tb.inboxes[2]}, tb.pool.Inboxes())
}

func TestADismissedWorkerLeavesInTheMiddleOfAnEndlessVisit(t *testing.T) {
	for _, mode := range dispatchModes {
		tb := newTestbed(t, 1)
		tb.pool.SetDispatch(mode)
		w, w2 := tb.addWorker(), tb.addWorker()
		w2.turn(true)
		tb.submitN(0, 9)
		require.Equal(t, []string{"A", "A"}, w.trail(2))
		w2.turn(true)
		tb.pool.Shrink(1)
		_, cmds := w.turn(true)
		require.Equal(t, []any{"gone"}, cmds)
		tb.pool.Leave(&w.Member, &w.tally)
		s := Snapshot(tb.inboxes)[0]
		require.Equal(t, 1, s.Out, "only the other worker's is in use, %v", mode)
		require.Equal(t, 1, s.Queue.InHand)
		require.Len(t, tb.inboxes[0].state.instances.Inspect().Idle, 1, "its instance is left for others")
		require.Equal(t, 1, tb.pool.Accounts().Live)
		require.Equal(t, 2, tb.pool.Accounts().Most)
	}
}

// forwarding has one worker handle commands that go through all inboxes, and returns the order: each command with the number of
// its stage.
func forwarding(tb *testbed, w *testWorker) string {
	var did []string
	for range 100 {
		in, cmds := w.next(false)
		if in == nil {
			break
		}
		for _, cmd := range cmds {
			did = append(did, fmt.Sprint(cmd, in.Place+1))
		}
		if in.Place+1 < len(tb.inboxes) {
			w.forward(tb.inboxes[in.Place+1], false)
		} else {
			w.tally.OK = w.n
			w.n = 0
		}
	}
	return strings.Join(did, " ")
}

func TestTheDispatchModeDecidesBetweenDepthFirstAndBreadthFirst(t *testing.T) {
	bound := &controller.VisitPlan{Gating: controller.Bounded, Bound: 1}
	tests := map[string]struct {
		mode      controller.Dispatch
		plan      *controller.VisitPlan
		instances int
		want      string
	}{
		"shared FIFO, breadth first":        {controller.SharedFIFO, bound, 2, "a1 b1 a2 b2 a3 b3"},
		"shared FIFO, one instance of each": {controller.SharedFIFO, bound, 1, "a1 a2 b1 a3 b2 b3"},
		"shared FIFO, no bound":             {controller.SharedFIFO, nil, 1, "a1 b1 a2 b2 a3 b3"},
		"shared priority, depth first":      {controller.SharedPriority, bound, 2, "a1 a2 a3 b1 b2 b3"},
		"shared priority, one instance":     {controller.SharedPriority, bound, 1, "a1 a2 a3 b1 b2 b3"},
		"shared priority, no bound":         {controller.SharedPriority, nil, 2, "a1 b1 a2 b2 a3 b3"},
		"polled":                            {controller.Polled, nil, 2, "a1 b1 a2 b2 a3 b3"},
		"polled, bounded":                   {controller.Polled, bound, 2, "a1 a2 a3 b1 b2 b3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tb := newTestbed(t, 3, func(c *Config) { c.Batch, c.Instances = 8, test.instances })
			tb.pool.SetDispatch(test.mode)
			tb.pool.SetPlan(test.plan)
			for i, in := range tb.inboxes {
				in.state.pace.limit = 8
				in.Settings().Adjust(func(k *Knobs) { k.Priority = i })
			}
			w := tb.addWorker()
			tb.submit(0, "a", "b")
			require.Equal(t, test.want, forwarding(tb, w))
		})
	}
}

func TestThereAreNoMoreTokensThanFreeInstances(t *testing.T) {
	tb := newTestbed(t, 1, func(c *Config) { c.Instances = 2 })
	in := tb.inboxes[0]
	tb.submitN(0, 5)
	require.EqualValues(t, 2, in.state.visits.tokens)
	w, w2, x := tb.addWorker(), tb.addWorker(), tb.addWorker()
	require.Equal(t, []string{"A"}, w.trail(1))
	require.Equal(t, []string{"A"}, w2.trail(1))
	require.Zero(t, in.state.visits.tokens)
	require.Equal(t, []string{"-"}, x.trail(1), "as many workers are at the inbox as may be")
	x.turn(true)
	in.Settings().Adjust(func(k *Knobs) { k.Instances = 3 })
	require.Equal(t, 1, x.woken)
	require.Equal(t, []string{"A"}, x.trail(1))
	require.Equal(t, 3, in.state.instances.Inspect().Made)
	in.Settings().Adjust(func(k *Knobs) { k.Instances = 1 })
	w.next(true)
	w2.tally.OK = 1
	_, n := tb.pool.Turn(&w2.Member, &w2.tally, true)
	require.Zero(t, n)
	require.NotNil(t, w2.Surplus, "the surplus instance is to be stopped")
	require.Equal(t, 1, in.state.instances.Inspect().Made)
}

func TestANewPriorityAppliesToExistingTokens(t *testing.T) {
	tb := newTestbed(t, 2)
	tb.pool.SetDispatch(controller.SharedPriority)
	w := tb.addWorker()
	tb.submitN(0, 3)
	tb.submitN(1, 3)
	require.Equal(t, []string{"A"}, w.trail(1), "with equal priorities first come, first served")
	tb.inboxes[1].Settings().Adjust(func(k *Knobs) { k.Priority = 1 })
	require.Equal(t, []string{"B", "B", "B", "A", "A", "-"}, w.trail(6))
}

func TestAnInboxIsNotServedWhileOneAheadIsFull(t *testing.T) {
	for _, mode := range dispatchModes {
		t.Run(mode.String(), func(t *testing.T) {
			tb := newTestbed(t, 2, func(c *Config) { c.Capacity = 4 })
			tb.pool.SetDispatch(mode)
			tb.inboxes[0].Settings().Ahead(tb.inboxes[1])
			tb.inboxes[0].Settings().Ahead(tb.inboxes[1])
			require.Len(t, *tb.inboxes[0].state.ahead.Load(), 1)
			tb.inboxes[1].Settings().Bind(nil)
			w, own := tb.addWorker(), tb.addOwnWorker(tb.inboxes[1])
			tb.submitN(1, 4)
			tb.submitN(0, 2)
			in, _ := w.turn(true)
			require.Nil(t, in)
			own.turn(true)
			require.Zero(t, w.woken, "three of four are left")
			own.turn(true)
			require.Equal(t, 1, w.woken, "half of the inbox is free")
			require.Equal(t, []string{"A"}, w.trail(1))
			tb.submitN(1, 2)
			require.Equal(t, []string{"-"}, w.trail(1), "full again, in the middle of a visit")
			w.turn(true)
			tb.inboxes[1].Settings().Adjust(func(k *Knobs) { k.Capacity = 8 })
			require.Equal(t, []string{"A", "-"}, w.trail(2))
		})
	}
}

func TestAnInboxIsNotAheadOfItself(t *testing.T) {
	tb := newTestbed(t, 1, func(c *Config) { c.Capacity = 1 })
	tb.inboxes[0].Settings().Ahead(tb.inboxes[0])
	tb.submitN(0, 1)
	require.Equal(t, []string{"A"}, tb.addWorker().trail(1))
}

// A worker that has polled keeps a route of its own. The mode with a shared queue does not use it.
func TestTheBoundOfASharedQueueIsThatOfThePresentPlan(t *testing.T) {
	tb := newTestbed(t, 1, func(c *Config) { c.Batch = 8 })
	tb.polled(&controller.VisitPlan{Gating: controller.Bounded, Bound: 5})
	w := tb.addWorker()
	w.turn(false)
	tb.pool.SetPlan(&controller.VisitPlan{Gating: controller.Bounded, Bound: 2})
	tb.pool.SetDispatch(controller.SharedFIFO)
	tb.inboxes[0].state.pace.limit = 8
	tb.submitN(0, 8)
	require.Equal(t, []string{"A", "A"}, w.trail(1))
}

func TestAFullInboxThatDropsStallsNoInboxBehind(t *testing.T) {
	tb := newTestbed(t, 2, func(c *Config) { c.Capacity, c.Overflow = 1, Reject })
	tb.inboxes[0].Settings().Ahead(tb.inboxes[1])
	tb.inboxes[1].Settings().Adjust(func(k *Knobs) { k.Paused = true })
	tb.submitN(1, 1)
	tb.submitN(0, 1)
	w := tb.addWorker()
	require.Equal(t, []string{"A", "-"}, w.trail(2))
}

func TestASharedPoolIsTheSumOfItsInboxes(t *testing.T) {
	tb := newTestbed(t, 2)
	require.Equal(t, "pool", tb.pool.Name())
	tb.submitN(0, 2)
	tb.submitN(1, 3)
	require.Equal(t, 5, tb.pool.Len())
	require.Same(t, tb.pool, tb.inboxes[0].Settings().Pool())
	require.Nil(t, tb.pool.Plan())
	w := tb.addWorker()
	w.turn(true)
	require.Zero(t, tb.inboxes[0].Workers().Streak())
	w.crash(false)
	require.Equal(t, 1, tb.inboxes[0].Workers().Streak())
	require.EqualValues(t, 1, Snapshot(tb.inboxes)[0].Counts.Restarts, "the inbox counts the restart, for a shared pool does not know where the worker crashed")
	tb.pool.CrashIdle(nil)
	tb.pool.Shrink(3)
	require.Equal(t, 1, tb.pool.Unshrink(1))
	require.Equal(t, 1, tb.pool.Unshrink(1))
	tb.pool.ForgetShrink()
	require.Zero(t, tb.pool.Unshrink(1))
}

// The worker that was woken for a token ends instead: another one is woken.
func TestAWorkerThatLeavesWakesAnotherForTheToken(t *testing.T) {
	tb := newTestbed(t, 1)
	w, w2 := tb.addWorker(), tb.addWorker()
	w.turn(true)
	w2.turn(true)
	tb.submitN(0, 1)
	require.Equal(t, []int{0, 1}, []int{w.woken, w2.woken}, "the one that was parked last is woken")
	tb.pool.Leave(&w2.Member, &w2.tally)
	require.Equal(t, 1, w.woken)
	require.Equal(t, []string{"A"}, w.trail(1))
}

func TestATokenThatWasTakenBackStartsNoVisit(t *testing.T) {
	changes := map[string]func(*testbed){
		"another pool":     func(tb *testbed) { tb.inboxes[0].Settings().Bind(NewSharedPool("other", tb.Pipeline)) },
		"its own workers":  func(tb *testbed) { tb.inboxes[0].Settings().Bind(nil) },
		"another priority": func(tb *testbed) { tb.inboxes[0].Settings().Adjust(func(k *Knobs) { k.Priority++ }) },
		"another mode":     func(tb *testbed) { tb.pool.SetDispatch(controller.SharedPriority) },
		"halted":           func(tb *testbed) { tb.inboxes[0].Phases().Halt()() },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			tb := newTestbed(t, 1)
			w := tb.addWorker()
			tb.submitN(0, 1)
			b, era := tb.pool.Next(&w.visit.way)
			require.NotNil(t, b)
			change(tb)
			require.Zero(t, tb.pool.enter(b, era, &w.Member))
			require.GreaterOrEqual(t, b.Inbox().state.visits.tokens, int32(0))
		})
	}
}

func TestAPollingWorkerDoesNotServeAnInboxThatHasLeftThePool(t *testing.T) {
	tb := newTestbed(t, 2)
	other := NewSharedPool("other", tb.Pipeline)
	tb.polled(nil)
	w := tb.addWorker()
	tb.submitN(0, 5)
	b, era := tb.pool.Next(&w.visit.way)
	in := tb.inboxes[0]
	require.Same(t, in, b.Inbox())
	in.Settings().Bind(other)
	require.Zero(t, tb.pool.enter(b, era, &w.Member), "on its way")
	require.EqualValues(t, 2, tb.pool.Accounts().Visits+tb.pool.Accounts().Empties)
	require.EqualValues(t, 1, in.state.visits.empties.Load())
	in.Settings().Bind(tb.pool)
	require.Equal(t, []string{"A"}, w.trail(1))
	in.Settings().Bind(other)
	require.Equal(t, []string{"-"}, w.trail(1), "in the middle of a visit")
	require.Len(t, in.state.instances.Inspect().Idle, 1)
}

// A full inbox takes what a shared worker hands over. A stage's own worker waits.
func TestASharedWorkerNeverWaitsForAFreeSlot(t *testing.T) {
	tb := newTestbed(t, 2, func(c *Config) { c.Capacity = 2 })
	w, own := tb.addWorker(), &testWorker{st: tb}
	own.Wake = func() { own.woken++ }
	tb.submitN(0, 1)
	tb.submitN(1, 2)
	require.Zero(t, tb.inboxes[1].Senders().HandOver(&own.Member, []command.Envelope{{Load: 9}}, 0, false, true))
	w.next(false)
	require.Equal(t, 1, w.forward(tb.inboxes[1], true))
	require.True(t, w.Ready())
	require.Equal(t, 3, tb.inboxes[1].Len())
	require.NoError(t, tb.inboxes[1].Senders().Send(t.Context(), command.Envelope{Load: 10}, nil, false, true))
	require.Equal(t, []string{"B", "B"}, w.trail(2))
	require.Zero(t, own.woken)
	require.Equal(t, []string{"B"}, w.trail(1))
	require.Equal(t, 1, own.woken, "a shared worker frees a slot for it")
}

// The inbox ahead was found full, but has free slots again when it is to stall this one.
func TestAnInboxIsNotStalledIfTheOneAheadHasFreeSlotsAgain(t *testing.T) {
	tb := newTestbed(t, 2)
	w := tb.addWorker()
	w.turn(true)
	tb.submitN(0, 1)
	require.False(t, tb.inboxes[0].stallBehind(tb.inboxes[1]))
	require.False(t, tb.inboxes[0].state.visits.stalled)
	require.Empty(t, tb.inboxes[1].state.visits.behind)
	require.Equal(t, []string{"A"}, w.trail(1))
}

// Commands from outside fill the inbox ahead again as soon as a slot is free. The inbox behind is served all the same.
func TestCommandsFromOutsideDoNotStarveAnInboxBehind(t *testing.T) {
	for _, mode := range []controller.Dispatch{controller.SharedFIFO, controller.Polled} {
		synctest.Test(t, func(t *testing.T) {
			tb := newTestbed(t, 2, func(c *Config) { c.Capacity = 8 })
			tb.inboxes[0].Settings().Ahead(tb.inboxes[1])
			tb.pool.SetDispatch(mode)
			tb.pool.SetPlan(&controller.VisitPlan{Gating: controller.Gated})
			tb.submitN(1, 8)
			for i := range 100 {
				go func() { _ = submitTo(t.Context(), tb.inboxes[1], i) }()
			}
			synctest.Wait()
			w := tb.addWorker()
			tb.submitN(0, 3)
			seen := 0
			for turn := range 60 {
				in, _ := w.turn(false)
				synctest.Wait()
				if in == tb.inboxes[0] {
					seen++
					require.Equal(t, 1, w.forward(tb.inboxes[1], false), "turn %d", turn)
				}
				require.LessOrEqual(t, tb.inboxes[1].Len(), 8+seen)
			}
			require.Equal(t, 3, seen, mode)
			tb.inboxes[1].Phases().Halt()()
		})
	}
}
