package inbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
)

// A stage may have more workers than instances.
func TestAnIdleWorkerThatHasNoInstanceDoesNotKeepTheOneThatHasFromTheWork(t *testing.T) {
	st := newStreet(t, 1, func(c *Config) { c.Instances = 1 })
	st.rooms[0].Bind(nil)
	has, lacks := st.employ(st.rooms[0]), st.employ(st.rooms[0])
	has.turn(true)
	lacks.turn(true)
	st.submit(0, "work")
	for range 4 {
		for _, v := range []*visitor{has, lacks} {
			if v.Ready() {
				v.turn(true)
			}
		}
	}
	require.Zero(t, st.rooms[0].Len(), "a worker with an instance is idle, and was not called")
}

// The worker parks until half of the inbox is free, which under a limit it never is.
func TestAParkedWorkerIsLetIntoARoomWithASmallLimit(t *testing.T) {
	st := newStreet(t, 2)
	in := st.rooms[1]
	in.Bind(nil)
	in.SetAdmission(controller.Admission{Limit: 2})
	up, down := st.employ(st.rooms[0]), st.employ(in)
	st.many(1, 2)
	require.Zero(t, in.HandOver(&up.Member, []command.Envelope{{Cmd: 1}}, 0, false, true))
	for range 3 {
		down.turn(true)
	}
	require.Zero(t, in.Load())
	require.True(t, up.Ready(), "the room is empty, and the worker was not woken")
}

func TestAWorkerThatIsDismissedLetsInWhoWaitsUnderALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStreet(t, 1)
		in := st.rooms[0]
		in.Bind(nil)
		in.SetAdmission(controller.Admission{Limit: 1})
		v := st.employ(in)
		st.submit(0, 1)
		v.turn(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		entered := make(chan error, 1)
		go func() { entered <- bring(ctx, in, 2) }()
		synctest.Wait()
		in.Shrink(1)
		_, gone := v.turn(true)
		require.Equal(t, []any{"gone"}, gone)
		require.NoError(t, <-entered, "nothing is in the room")
		require.Equal(t, 1, st.InFlight(), "who waited, and nobody else")
	})
}

func TestACrashLetsInWhoWaitsUnderALimit(t *testing.T) {
	for _, house := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := newStreet(t, 2)
			limit := controller.Admission{Limit: 1}
			if house {
				st.SetAdmission(limit)
			} else {
				st.rooms[0].SetAdmission(limit)
			}
			v := st.hire()
			st.submit(0, 1)
			v.turn(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			in := make(chan error, 1)
			go func() { in <- bring(ctx, st.rooms[0], 2) }()
			synctest.Wait()
			v.crash(false)
			v = st.hire()
			v.turn(true)
			require.NoError(t, <-in, "the command has died; house %v", house)
		})
	}
}

func TestAHaltSendsAwayWhoWaitsForTheHouse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStreet(t, 1)
		st.SetAdmission(controller.Admission{Limit: 1})
		st.submit(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		in := make(chan error, 1)
		go func() { in <- bring(ctx, st.rooms[0], 2) }()
		synctest.Wait()
		st.rooms[0].Halt()()
		require.ErrorIs(t, <-in, ErrClosed)
		require.NoError(t, ctx.Err(), "it was not told")
	})
}

// The mode is changed between an inbox's looking how many tokens it wants and its giving
// them: the bell of a worker that is called is in between.
func TestTokensThatAreGivenWhileTheModeChangesAreTakenBackToo(t *testing.T) {
	st := newStreet(t, 1)
	v := st.hire()
	v.turn(true)
	changed := make(chan struct{})
	v.Wake = func() {
		if st.crew.polled() {
			return
		}
		go func() {
			defer close(changed)
			st.crew.SetDispatch(controller.Polled)
		}()
		for !st.crew.polled() { //nolint:revive // it is on its way
		}
	}
	es := []command.Envelope{{Cmd: 1}, {Cmd: 2}, {Cmd: 3}}
	require.Equal(t, 3, st.rooms[0].HandOver(&Member{}, es, 0, false, false))
	<-changed
	require.EqualValues(t, 1, st.crew.noted.Load(), "one room has work")
}

func TestAWorkerOnItsWayWithATokenMayFindThatItPolls(t *testing.T) {
	st := newStreet(t, 2)
	v := st.hire()
	st.submit(0, 1)
	in, era := st.crew.next(&v.Member)
	require.Same(t, st.rooms[0], in)
	st.crew.SetDispatch(controller.Polled)
	in.Adjust(func(k *Knobs) { k.Paused = true })
	require.NotPanics(t, func() { require.Zero(t, st.crew.enter(in, era, &v.Member)) })
}

func TestARestingRoomIsLeftAlone(t *testing.T) {
	for _, mode := range []controller.Dispatch{controller.SharedFIFO, controller.SharedPriority, controller.Polled} {
		synctest.Test(t, func(t *testing.T) {
			st := newStreet(t, 1)
			st.crew.SetDispatch(mode)
			v := st.hire()
			st.many(0, 3)
			st.rooms[0].Rest(time.Minute)
			v.turn(true)
			require.Zero(t, v.n, "%v", mode)
			st.pass(time.Minute)
			require.Equal(t, 1, v.woken, "%v", mode)
			v.turn(true)
			require.NotZero(t, v.n, "%v", mode)
			st.rooms[0].Rest(time.Minute)
			v.turn(false)
			require.Zero(t, v.n, "in the middle of a visit, %v", mode)
			st.pass(time.Minute)
		})
	}
}

func TestTheLongerOfTwoRestsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStreet(t, 1)
		v := st.hire()
		v.turn(true)
		st.rooms[0].Rest(time.Minute)
		st.rooms[0].Rest(time.Second)
		st.submit(0, 1)
		st.pass(2 * time.Second)
		require.Zero(t, v.woken)
		st.pass(time.Minute)
		require.Equal(t, 1, v.woken)
	})
}

// Nobody waits along a shared pool's way; but an inbox that drops is not to grow without end.
func TestARoomThatDropsDropsWhatACrewBringsTooMany(t *testing.T) {
	for _, rule := range []Overflow{Reject, DropNewest, DropOldest} {
		st := newStreet(t, 2, func(c *Config) { c.Capacity, c.Overflow = 2, rule })
		v := st.hire()
		st.rooms[1].Adjust(func(k *Knobs) { k.Paused = true })
		for i := range 10 {
			st.submit(0, i)
			v.next(false)
			v.forward(st.rooms[1], true)
		}
		require.LessOrEqual(t, st.rooms[1].Len(), 2, ruleNames[rule])
	}
}

// A worker of the shared pool that crashed hands over what it has done before; until then
// nobody is to do what it gave back, where one at a time is to keep the order.
func TestAWorkerThatCrashedKeepsItsPlaceUntilItHasHandedOver(t *testing.T) {
	st := newStreet(t, 2, func(c *Config) { c.Instances, c.Batch = 1, 4 })
	st.rooms[0].limit = 4
	v, w := st.hire(), st.hire()
	st.many(0, 6)
	_, cmds := v.turn(true)
	require.Equal(t, []any{0, 1, 2, 3}, cmds)
	batch := v.Batch[:v.n]
	done := []command.Envelope{batch[0]}
	v.tally.Forwarded = 1
	batch[1].Failed()
	st.rooms[0].Crash(&v.Member, &v.tally, &batch[1], batch[2:], false, ErrStopped)
	_, cmds = w.turn(true)
	require.Empty(t, cmds, "%v overtakes %v", cmds, done[0].Cmd)
	require.Equal(t, 1, st.rooms[1].HandOver(&v.Member, done, 0, true, false))
	st.crew.Leave(&v.Member, &v.tally)
	st.rooms[0].Quit(&v.Member)
	_, cmds = w.turn(true)
	require.Equal(t, []any{0}, cmds, "what was handed over came first")
	_, cmds = w.turn(true)
	require.Equal(t, []any{2, 3, 4, 5}, cmds)
}

func TestTheEndOfAPlanIsToldOnceThoughARoomComesToTheCrewMeanwhile(t *testing.T) {
	st := newStreet(t, 3)
	st.rooms[2].Bind(nil)
	st.polled(&controller.VisitPlan{})
	v := st.hire()
	st.many(1, 2)
	v.turn(false) // A, then to B
	st.rooms[2].Bind(st.crew)
	for range 8 {
		v.turn(false)
	}
	require.Equal(t, 1, st.rounds)
}

// What is to be visited next is said by the plan that is given now.
func TestAPlanForNowIsFollowedByWhoWasIdle(t *testing.T) {
	st := newStreet(t, 2)
	st.polled(&controller.VisitPlan{})
	v := st.hire()
	v.turn(true)
	st.submit(0, 1)
	st.submit(1, 1)
	st.crew.SetPlan(&controller.VisitPlan{Order: []controller.StageID{1, 0}, Now: true})
	require.Equal(t, []string{"B", "A"}, v.trail(2))
}

// An inbox behind a full one is not forgotten when that one is halted.
func TestAHaltTellsTheRoomsThatWaitBehind(t *testing.T) {
	st := newStreet(t, 2, func(c *Config) { c.Capacity = 2 })
	st.rooms[0].Ahead(st.rooms[1])
	v := st.hire()
	st.rooms[1].Adjust(func(k *Knobs) { k.Paused = true })
	st.many(1, 2)
	st.many(0, 2)
	in, _ := v.turn(true)
	require.Nil(t, in)
	st.rooms[1].Halt()()
	require.True(t, v.Ready())
	in, _ = v.turn(true)
	require.Same(t, st.rooms[0], in)
}

// Turn looks for a dismissal first, then for work, and parks last.
func TestAWorkerThatIsAboutToRestIsDismissedToo(t *testing.T) {
	st := newStreet(t, 1)
	v := st.hire()
	require.False(t, st.crew.arriveOrRetire(&v.Member))
	st.crew.Shrink(1)
	if st.crew.parked(&v.Member) {
		require.True(t, v.Ready(), "it rests, and nobody calls it")
	}
	_, cmds := v.turn(true)
	require.Equal(t, []any{"gone"}, cmds)
}
