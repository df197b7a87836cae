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

// One worker, and three inboxes with so many commands queued.
func TestAWorkerGoesWhereThePlanLeads(t *testing.T) {
	order := func(ids ...controller.StageID) []controller.StageID { return ids }
	tests := map[string]struct {
		plan   *controller.VisitPlan
		queued [3]int
		want   string
	}{
		"no plan":                  {nil, [3]int{2, 1, 2}, "A A B C C -"},
		"exhaustive":               {&controller.VisitPlan{}, [3]int{2, 1, 2}, "A A B C C -"},
		"another order":            {&controller.VisitPlan{Order: order(2, 0, 1)}, [3]int{2, 1, 2}, "C C A A B -"},
		"what is left out is last": {&controller.VisitPlan{Order: order(1)}, [3]int{1, 2, 1}, "B B A C -"},
		"who is not of the crew":   {&controller.VisitPlan{Order: order(7, 2, -1)}, [3]int{1, 1, 1}, "C A B -"},
		"a place named twice": {
			&controller.VisitPlan{Order: order(0, 1, 0, 2), Gating: controller.Bounded, Bound: 1},
			[3]int{4, 2, 2},
			"A B A C A B A C -",
		},
		"a bound of none is one":   {&controller.VisitPlan{Gating: controller.Bounded}, [3]int{2, 1, 2}, "A B C A C -"},
		"bounded":                  {&controller.VisitPlan{Gating: controller.Bounded, Bound: 2}, [3]int{3, 1, 2}, "A A B C C A -"},
		"bounded, one differently": {&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Bounds: map[controller.StageID]int{1: 3}}, [3]int{2, 4, 1}, "A B B B C A B -"},
		"gated":                    {&controller.VisitPlan{Gating: controller.Gated}, [3]int{2, 1, 2}, "A A B C C -"},
		"back to the first after each success": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Restart: true}, [3]int{2, 2, 1}, "A A B B C -",
		},
		"back to the second": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Restart: true, RestartAt: 1}, [3]int{2, 2, 1}, "A B B C A -",
		},
		"back beyond the end": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Restart: true, RestartAt: 9}, [3]int{2, 1, 2}, "A C C A B -",
		},
		"back before the beginning": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Restart: true, RestartAt: -9}, [3]int{2, 1, 1}, "A A B C -",
		},
		"on, if more is left": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 1, Restart: true, Advance: true}, [3]int{3, 1, 1}, "A B A C A -",
		},
		"back, if the bound was met and nothing is left": {
			&controller.VisitPlan{Gating: controller.Bounded, Bound: 2, Restart: true, Advance: true}, [3]int{2, 2, 2}, "A A B B C C -",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			st := newStreet(t, 3)
			st.polled(test.plan)
			v := st.hire()
			for i, n := range test.queued {
				st.many(i, n)
			}
			require.Equal(t, test.want, strings.Join(v.trail(len(strings.Fields(test.want))), " "))
		})
	}
}

func TestABoundIsMetExactlyWhateverTheBatch(t *testing.T) {
	for bound := 1; bound <= 9; bound++ {
		for batch := 1; batch <= 5; batch++ {
			for _, gating := range []controller.Gating{controller.Bounded, controller.Gated} {
				st := newStreet(t, 2, func(c *Config) { c.Batch = batch })
				st.polled(&controller.VisitPlan{Gating: gating, Bound: bound})
				v := st.hire()
				queued := [2]int{20, 20}
				if gating == controller.Gated {
					queued = [2]int{bound, bound}
				}
				for i, in := range st.rooms {
					in.limit = batch
					st.many(i, queued[i])
				}
				visit := 0
				for {
					in, cmds := v.turn(false)
					if in != st.rooms[0] {
						break
					}
					visit += len(cmds)
					if gating == controller.Gated {
						st.many(0, len(cmds)) // what comes meanwhile waits for the next visit
					}
				}
				require.Equal(t, bound, visit, "%v, batches of %d", gating, batch)
				require.Equal(t, st.rooms[1], v.at2)
			}
		}
	}
}

func TestAnExhaustiveVisitGoesOnWithWhatComesMeanwhile(t *testing.T) {
	for gating, want := range map[controller.Gating]string{controller.Exhaustive: "A A A B -", controller.Gated: "A B A A -"} {
		st := newStreet(t, 2)
		st.polled(&controller.VisitPlan{Gating: gating})
		v := st.hire()
		st.many(0, 1)
		st.many(1, 1)
		trail := v.trail(1)
		st.many(0, 2)
		trail = append(trail, v.trail(4)...)
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
			st := newStreet(t, 2)
			st.polled(&controller.VisitPlan{Gating: controller.TimeBounded, Quantum: quantum})
			v := st.hire()
			st.many(0, 10)
			st.many(1, 10)
			var trail []string
			for range strings.FieldsSeq(want) {
				trail = append(trail, v.trail(1)...)
				time.Sleep(4 * time.Millisecond)
			}
			require.Equal(t, want, strings.Join(trail, " "), quantum)
		})
	}
}

func TestVisitsAndEmptyVisitsAreCounted(t *testing.T) {
	st := newStreet(t, 3)
	st.polled(nil)
	st.crew.ReportVisits(2)
	v := st.hire()
	st.many(1, 1)
	require.Equal(t, []string{"B", "-"}, v.trail(2))
	s := st.crew.Accounts()
	require.EqualValues(t, 5, s.Visits, "A, B, C, A, B")
	require.EqualValues(t, 4, s.Empties)
	require.EqualValues(t, 1, s.Rounds)
	require.Equal(t, 2, st.told)
	for i, empties := range []uint64{2, 1, 1} {
		sheet := Snapshot(st.rooms)[i]
		require.Equal(t, empties, sheet.Empties)
	}
	require.EqualValues(t, 1, Snapshot(st.rooms)[1].Visits)
	v.turn(true)
	require.EqualValues(t, 5, st.crew.Accounts().Visits, "it has looked round already")
	v.turn(true)
	require.EqualValues(t, 8, st.crew.Accounts().Visits, "woken in vain, it looks round once more")
	require.Equal(t, 4, st.told)
	st.crew.ReportVisits(0)
	st.many(0, 9)
	v.trail(20)
	require.Equal(t, 4, st.told, "nobody asks any more")
}

func TestVisitsOfASharedQueueAreCounted(t *testing.T) {
	st := newStreet(t, 2)
	st.crew.ReportVisits(3)
	v := st.hire()
	st.many(0, 3)
	st.many(1, 3)
	v.trail(8)
	s := st.crew.Accounts()
	require.EqualValues(t, 6, s.Visits)
	require.Zero(t, s.Empties+s.Rounds)
	require.Equal(t, 2, st.told)
	require.EqualValues(t, 3, Snapshot(st.rooms)[0].Visits)
}

func TestTheEndOfAPlanIsToldOnce(t *testing.T) {
	st := newStreet(t, 2)
	st.polled(&controller.VisitPlan{Gating: controller.Bounded, Bound: 1})
	v, w := st.hire(), st.hire()
	st.many(0, 20)
	st.many(1, 20)
	v.trail(2)
	require.Zero(t, st.rounds)
	v.trail(1)
	require.Equal(t, 1, st.rounds)
	v.trail(4)
	w.trail(5)
	require.Equal(t, 1, st.rounds)
	require.EqualValues(t, 5, st.crew.Accounts().Rounds)
	plan := &controller.VisitPlan{Gating: controller.Bounded, Bound: 2}
	st.crew.SetPlan(plan)
	require.Same(t, plan, st.crew.Plan())
	v.trail(9)
	require.Equal(t, 2, st.rounds, "another plan")
}

// B, the last place, has work at each visit, so that the worker always goes back to A.
func TestARoundEndsAtTheLastPlaceEvenIfItsVisitsSucceed(t *testing.T) {
	for full, want := range map[bool]int{false: 1, true: 0} {
		st := newStreet(t, 2)
		st.polled(&controller.VisitPlan{Gating: controller.Bounded, Restart: true, FullRounds: full})
		v := st.hire()
		st.many(1, 5)
		require.Equal(t, []string{"B", "B", "B", "B"}, v.trail(4))
		require.Equal(t, want, st.rounds, "full rounds: %v", full)
		require.EqualValues(t, 3*want, st.crew.Accounts().Rounds, "full rounds: %v", full)
		v.trail(3)
		require.Equal(t, 1, st.rounds, "a pass without success ends any round")
	}
}

func TestANewPlanIsFollowedAfterTheRoundOrNow(t *testing.T) {
	for now, want := range map[bool]string{false: "A B C C B A", true: "A C B A C B"} {
		st := newStreet(t, 3)
		st.polled(&controller.VisitPlan{Gating: controller.Bounded})
		v := st.hire()
		for i := range st.rooms {
			st.many(i, 5)
		}
		trail := v.trail(1)
		st.crew.SetPlan(&controller.VisitPlan{Order: []controller.StageID{2, 1, 0}, Gating: controller.Bounded, Now: now})
		trail = append(trail, v.trail(5)...)
		require.Equal(t, want, strings.Join(trail, " "), "now: %v", now)
	}
}

// A, B and C have work without end, so that no worker ever comes past the end of the plan.
func TestANewPlanIsAdoptedWhenAWalkRestarts(t *testing.T) {
	order := []controller.StageID{2, 1, 0}
	for name, tt := range map[string]struct {
		before, after controller.VisitPlan
		want          string
	}{
		"at the first place": {controller.VisitPlan{Restart: true}, controller.VisitPlan{Order: order, Restart: true}, "A C C C"},
		"at the first place of the new order, wherever that restarts": {
			controller.VisitPlan{Restart: true, RestartAt: 1}, controller.VisitPlan{Order: order, Restart: true, RestartAt: 1}, "A C B B",
		},
		"even if the new plan does not restart": {controller.VisitPlan{Restart: true}, controller.VisitPlan{Order: order}, "A C B A"},
		"not by a visit that goes on to the next place": {
			controller.VisitPlan{Restart: true, Advance: true}, controller.VisitPlan{Order: order, Restart: true}, "A B C C",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.before.Gating, tt.after.Gating = controller.Bounded, controller.Bounded
			st := newStreet(t, 3)
			st.polled(&tt.before)
			v := st.hire()
			for i := range st.rooms {
				st.many(i, 5)
			}
			trail := v.trail(1)
			st.crew.SetPlan(&tt.after)
			trail = append(trail, v.trail(3)...)
			require.Equal(t, tt.want, strings.Join(trail, " "))
		})
	}
}

func TestAWorkerComesToARoomThatIsNewToTheCrew(t *testing.T) {
	st := newStreet(t, 3)
	st.rooms[1].Bind(nil)
	st.polled(&controller.VisitPlan{Gating: controller.Bounded})
	v := st.hire()
	for i := range st.rooms {
		st.many(i, 4)
	}
	trail := v.trail(1)
	st.rooms[1].Bind(st.crew)
	trail = append(trail, v.trail(4)...)
	require.Equal(t, "A A B C A", strings.Join(trail, " "))
	require.Equal(t, []*Inbox{st.rooms[0], st.rooms[1], st.rooms[2]}, st.crew.Inboxes())
}

func TestADismissedWorkerLeavesInTheMiddleOfAnEndlessVisit(t *testing.T) {
	for _, mode := range dispatchModes {
		st := newStreet(t, 1)
		st.crew.SetDispatch(mode)
		v, w := st.hire(), st.hire()
		w.turn(true)
		st.many(0, 9)
		require.Equal(t, []string{"A", "A"}, v.trail(2))
		w.turn(true)
		st.crew.Shrink(1)
		_, cmds := v.turn(true)
		require.Equal(t, []any{"gone"}, cmds)
		st.crew.Leave(&v.Member, &v.tally)
		s := Snapshot(st.rooms)[0]
		require.Equal(t, 1, s.Out, "the other one, %v", mode)
		require.Equal(t, 1, s.InHand)
		require.Len(t, st.rooms[0].idleInstances, 1, "its instance is left for others")
		require.Equal(t, 1, st.crew.Accounts().Live)
		require.Equal(t, 2, st.crew.Accounts().Most)
	}
}

// forwarding has one worker do two commands that go through three inboxes, and tells which
// was done where.
func forwarding(st *street, v *visitor) string {
	var did []string
	for range 100 {
		in, cmds := v.next(false)
		if in == nil {
			break
		}
		for _, cmd := range cmds {
			did = append(did, fmt.Sprint(cmd, in.Place+1))
		}
		if in.Place+1 < len(st.rooms) {
			v.forward(st.rooms[in.Place+1], false)
		} else {
			v.tally.OK = v.n
			v.n = 0
		}
	}
	return strings.Join(did, " ")
}

func TestTheModeSaysWhetherOneCommandGoesThroughOrAllGoOn(t *testing.T) {
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
			st := newStreet(t, 3, func(c *Config) { c.Batch, c.Instances = 8, test.instances })
			st.crew.SetDispatch(test.mode)
			st.crew.SetPlan(test.plan)
			for i, in := range st.rooms {
				in.limit = 8
				in.Adjust(func(k *Knobs) { k.Priority = i })
			}
			v := st.hire()
			st.submit(0, "a", "b")
			require.Equal(t, test.want, forwarding(st, v))
		})
	}
}

func TestThereAreNoMoreTokensThanFreeInstances(t *testing.T) {
	st := newStreet(t, 1, func(c *Config) { c.Instances = 2 })
	in := st.rooms[0]
	st.many(0, 5)
	require.EqualValues(t, 2, in.tokens.Load())
	v, w, x := st.hire(), st.hire(), st.hire()
	require.Equal(t, []string{"A"}, v.trail(1))
	require.Equal(t, []string{"A"}, w.trail(1))
	require.Zero(t, in.tokens.Load())
	require.Equal(t, []string{"-"}, x.trail(1), "as many are in the room as may be")
	x.turn(true)
	in.Adjust(func(k *Knobs) { k.Instances = 3 })
	require.Equal(t, 1, x.woken)
	require.Equal(t, []string{"A"}, x.trail(1))
	require.Equal(t, 3, in.made)
	in.Adjust(func(k *Knobs) { k.Instances = 1 })
	v.next(true)
	w.tally.OK = 1
	_, n := st.crew.Turn(&w.Member, &w.tally, true)
	require.Zero(t, n)
	require.NotNil(t, w.Surplus, "one too many is to be stopped")
	require.Equal(t, 1, in.made)
}

func TestANewPriorityCountsForTokensThatAreThereAlready(t *testing.T) {
	st := newStreet(t, 2)
	st.crew.SetDispatch(controller.SharedPriority)
	v := st.hire()
	st.many(0, 3)
	st.many(1, 3)
	require.Equal(t, []string{"A"}, v.trail(1), "equal ones as they came")
	st.rooms[1].Adjust(func(k *Knobs) { k.Priority = 1 })
	require.Equal(t, []string{"B", "B", "B", "A", "A", "-"}, v.trail(6))
}

func TestARoomIsLeftAloneWhileOneAheadIsFull(t *testing.T) {
	for _, mode := range dispatchModes {
		t.Run(mode.String(), func(t *testing.T) {
			st := newStreet(t, 2, func(c *Config) { c.Capacity = 4 })
			st.crew.SetDispatch(mode)
			st.rooms[0].Ahead(st.rooms[1])
			st.rooms[0].Ahead(st.rooms[1])
			require.Len(t, *st.rooms[0].ahead.Load(), 1)
			st.rooms[1].Bind(nil)
			v, own := st.hire(), st.employ(st.rooms[1])
			st.many(1, 4)
			st.many(0, 2)
			in, _ := v.turn(true)
			require.Nil(t, in)
			own.turn(true)
			require.Zero(t, v.woken, "three of four are left")
			own.turn(true)
			require.Equal(t, 1, v.woken, "half of the room is free")
			require.Equal(t, []string{"A"}, v.trail(1))
			st.many(1, 2)
			require.Equal(t, []string{"-"}, v.trail(1), "full again, in the middle of a visit")
			v.turn(true)
			st.rooms[1].Adjust(func(k *Knobs) { k.Capacity = 8 })
			require.Equal(t, []string{"A", "-"}, v.trail(2))
		})
	}
}

func TestARoomIsNotAheadOfItself(t *testing.T) {
	st := newStreet(t, 1, func(c *Config) { c.Capacity = 1 })
	st.rooms[0].Ahead(st.rooms[0])
	st.many(0, 1)
	require.Equal(t, []string{"A"}, st.hire().trail(1))
}

// Who polled once has a way of its own, which is not that of a shared queue.
func TestTheBoundOfASharedQueueIsThatOfThePresentPlan(t *testing.T) {
	st := newStreet(t, 1, func(c *Config) { c.Batch = 8 })
	st.polled(&controller.VisitPlan{Gating: controller.Bounded, Bound: 5})
	v := st.hire()
	v.turn(false)
	st.crew.SetPlan(&controller.VisitPlan{Gating: controller.Bounded, Bound: 2})
	st.crew.SetDispatch(controller.SharedFIFO)
	st.rooms[0].limit = 8
	st.many(0, 8)
	require.Equal(t, []string{"A", "A"}, v.trail(1))
}

func TestWhoDropsIsNotWaitedFor(t *testing.T) {
	st := newStreet(t, 2, func(c *Config) { c.Capacity, c.Overflow = 1, Reject })
	st.rooms[0].Ahead(st.rooms[1])
	st.rooms[1].Adjust(func(k *Knobs) { k.Paused = true })
	st.many(1, 1)
	st.many(0, 1)
	v := st.hire()
	require.Equal(t, []string{"A", "-"}, v.trail(2))
}

func TestACrewIsTheSumOfItsRooms(t *testing.T) {
	st := newStreet(t, 2)
	require.Equal(t, "crew", st.crew.Name())
	st.many(0, 2)
	st.many(1, 3)
	require.Equal(t, 5, st.crew.Len())
	require.Same(t, st.crew, st.rooms[0].Pool())
	require.Nil(t, st.crew.Plan())
	v := st.hire()
	v.turn(true)
	require.Zero(t, st.rooms[0].Streak())
	v.crash(false)
	require.Equal(t, 1, st.rooms[0].Streak())
	require.EqualValues(t, 1, Snapshot(st.rooms)[0].Restarts, "a crew knows no rooms")
	st.crew.CrashIdle()
	st.crew.Shrink(3)
	require.True(t, st.crew.RetireOne())
	require.Equal(t, 1, st.crew.Unshrink(1))
	st.crew.ForgetShrink()
	require.False(t, st.crew.RetireOne())
}

// The worker that is called is told to leave: another one is called for the token.
func TestAWorkerThatLeavesSendsAnotherToTheToken(t *testing.T) {
	leave := map[string]func(*street, *visitor){
		"dismissed": func(st *street, v *visitor) { st.crew.Shrink(1); v.turn(true) },
		"ended":     func(st *street, v *visitor) { st.crew.Leave(&v.Member, &v.tally) },
	}
	for name, f := range leave {
		t.Run(name, func(t *testing.T) {
			st := newStreet(t, 1)
			v, w := st.hire(), st.hire()
			v.turn(true)
			st.rooms[0].Adjust(func(k *Knobs) { k.Paused = true })
			w.turn(true)
			st.many(0, 1)
			st.rooms[0].Adjust(func(k *Knobs) { k.Paused = false })
			require.Equal(t, []int{0, 1}, []int{v.woken, w.woken}, "the last one to be idle is called")
			st.crew.Join(&Member{Wake: func() {}})
			if name == "dismissed" {
				st.crew.mu.Lock()
				st.crew.excess++ // as if it had been asked when nobody was idle
				st.crew.mu.Unlock()
				_, cmds := w.turn(true)
				require.Equal(t, []any{"gone"}, cmds)
			} else {
				f(st, w)
			}
			require.Equal(t, 1, v.woken)
			require.Equal(t, []string{"A"}, v.trail(1))
		})
	}
}

func TestATokenThatWasTakenBackIsWorthNothing(t *testing.T) {
	changes := map[string]func(*street){
		"another crew":     func(st *street) { st.rooms[0].Bind(NewSharedPool("other", st.Pipeline)) },
		"its own workers":  func(st *street) { st.rooms[0].Bind(nil) },
		"another priority": func(st *street) { st.rooms[0].Adjust(func(k *Knobs) { k.Priority++ }) },
		"another mode":     func(st *street) { st.crew.SetDispatch(controller.SharedPriority) },
		"halted":           func(st *street) { st.rooms[0].Halt()() },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			st := newStreet(t, 1)
			v := st.hire()
			st.many(0, 1)
			in, era := st.crew.next(&v.Member)
			require.NotNil(t, in)
			change(st)
			require.Zero(t, st.crew.enter(in, era, &v.Member))
			require.GreaterOrEqual(t, in.tokens.Load(), int32(0))
		})
	}
}

func TestAWorkerThatPollsDoesNotServeARoomThatHasLeftTheCrew(t *testing.T) {
	st := newStreet(t, 2)
	other := NewSharedPool("other", st.Pipeline)
	st.polled(nil)
	v := st.hire()
	st.many(0, 5)
	in, era := st.crew.next(&v.Member)
	require.Same(t, st.rooms[0], in)
	in.Bind(other)
	require.Zero(t, st.crew.enter(in, era, &v.Member), "on its way")
	require.EqualValues(t, 2, st.crew.Accounts().Visits+st.crew.Accounts().Empties)
	require.EqualValues(t, 1, in.empties.Load())
	in.Bind(st.crew)
	require.Equal(t, []string{"A"}, v.trail(1))
	in.Bind(other)
	require.Equal(t, []string{"-"}, v.trail(1), "in the middle of a visit")
	require.Len(t, in.idleInstances, 1)
}

// What a shared pool's worker brings is let in, full or not; one of an inbox's own waits.
func TestACrewsWorkerWaitsForNoSeat(t *testing.T) {
	st := newStreet(t, 2, func(c *Config) { c.Capacity = 2 })
	v, own := st.hire(), &visitor{st: st}
	own.Wake = func() { own.woken++ }
	st.many(0, 1)
	st.many(1, 2)
	require.Zero(t, st.rooms[1].HandOver(&own.Member, []command.Envelope{{Cmd: 9}}, 0, false, true))
	v.next(false)
	require.Equal(t, 1, v.forward(st.rooms[1], true))
	require.True(t, v.Ready())
	require.Equal(t, 3, st.rooms[1].Len())
	require.NoError(t, st.rooms[1].Send(t.Context(), command.Envelope{Cmd: 10}, nil, false, true))
	require.Equal(t, []string{"B", "B"}, v.trail(2))
	require.Zero(t, own.woken)
	require.Equal(t, []string{"B"}, v.trail(1))
	require.Equal(t, 1, own.woken, "a crew's worker makes room for others")
}

// The inbox ahead has got room between one look and the next.
func TestARoomThatFindsRoomAheadAfterAllIsNotStalled(t *testing.T) {
	st := newStreet(t, 2)
	v := st.hire()
	v.turn(true)
	st.many(0, 1)
	require.False(t, st.rooms[0].stallBehind(st.rooms[1]))
	require.False(t, st.rooms[0].stalled)
	require.Empty(t, st.rooms[1].behind)
	require.Equal(t, []string{"A"}, v.trail(1))
}

// Commands from outside fill the inbox ahead again as soon as a slot is free. The inbox behind has its turn all the same.
func TestCommandsFromOutsideDoNotStarveARoomBehind(t *testing.T) {
	for _, mode := range []controller.Dispatch{controller.SharedFIFO, controller.Polled} {
		synctest.Test(t, func(t *testing.T) {
			st := newStreet(t, 2, func(c *Config) { c.Capacity = 8 })
			st.rooms[0].Ahead(st.rooms[1])
			st.crew.SetDispatch(mode)
			st.crew.SetPlan(&controller.VisitPlan{Gating: controller.Gated})
			st.many(1, 8)
			for i := range 100 {
				go func() { _ = bring(t.Context(), st.rooms[1], i) }()
			}
			synctest.Wait()
			v := st.hire()
			st.many(0, 3)
			seen := 0
			for turn := range 60 {
				in, _ := v.turn(false)
				synctest.Wait()
				if in == st.rooms[0] {
					seen++
					require.Equal(t, 1, v.forward(st.rooms[1], false), "turn %d", turn)
				}
				require.LessOrEqual(t, st.rooms[1].Len(), 8+seen)
			}
			require.Equal(t, 3, seen, mode)
			st.rooms[1].Halt()()
		})
	}
}
