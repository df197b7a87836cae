package inbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
)

// doors are the two: an inbox's and the pipeline's.
var doors = map[string]func(*street, controller.Admission){
	"room":  func(st *street, a controller.Admission) { st.rooms[0].SetAdmission(a) },
	"house": func(st *street, a controller.Admission) { st.SetAdmission(a) },
}

func eachDoor(t *testing.T, f func(t *testing.T, st *street, admit func(controller.Admission))) {
	t.Helper()
	for name, admit := range doors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStreet(t, 1, func(c *Config) { c.Capacity = 100_000 })
				f(t, st, func(a controller.Admission) { admit(st, a) })
			})
		})
	}
}

// flood submits one command every so often, and returns how many were let in.
func flood(st *street, every, during time.Duration) (in int) {
	st.t.Helper()
	for range int(during / every) {
		time.Sleep(every)
		switch err := bring(st.t.Context(), st.rooms[0], 1); {
		case err == nil:
			in++
		default:
			require.ErrorIs(st.t, err, ErrRate)
		}
	}
	return in
}

func TestARateLetsInSoManyAndABurst(t *testing.T) {
	tests := []struct {
		rate   controller.Rate
		every  time.Duration
		during time.Duration
		want   int
	}{
		{controller.Rate{PerSecond: 10, Burst: 5}, time.Millisecond, 10 * time.Second, 105},
		{controller.Rate{PerSecond: 10, Burst: 1}, time.Millisecond, 10 * time.Second, 101},
		{controller.Rate{PerSecond: 0.5, Burst: 1}, time.Millisecond, 20 * time.Second, 11},
		{controller.Rate{PerSecond: 1000, Burst: 1}, 125 * time.Microsecond, time.Second, 1000},
		{controller.Rate{PerSecond: 10, Burst: 5}, 200 * time.Millisecond, 10 * time.Second, 50},
		{controller.Rate{PerSecond: 10}, time.Millisecond, 10 * time.Second, 100},
	}
	for _, test := range tests {
		eachDoor(t, func(t *testing.T, st *street, admit func(controller.Admission)) {
			admit(controller.Admission{Rate: test.rate})
			require.InDelta(t, test.want, flood(st, test.every, test.during), 1, "%v", test.rate)
		})
	}
}

// Ten tenths are to make one.
func TestARateThatIsAskedOftenLetsInNoFewer(t *testing.T) {
	eachDoor(t, func(t *testing.T, st *street, admit func(controller.Admission)) {
		admit(controller.Admission{Rate: controller.Rate{PerSecond: 1000, Burst: 1}})
		require.InDelta(t, 1000, flood(st, 100*time.Microsecond, time.Second), 1)
	})
}

// A policy that turns the rate a little, and often, is not to let in a burst each time.
func TestAChangedRateKeepsWhatIsLeftOfTheBurst(t *testing.T) {
	eachDoor(t, func(t *testing.T, st *street, admit func(controller.Admission)) {
		in := 0
		for i := range 10 {
			admit(controller.Admission{Rate: controller.Rate{PerSecond: 1 + float64(i)/1000, Burst: 5}})
			in += flood(st, time.Nanosecond, 5)
		}
		require.Equal(t, 5, in, "in no time")
	})
}

func TestABurstIsAllThatASilenceSaves(t *testing.T) {
	eachDoor(t, func(t *testing.T, st *street, admit func(controller.Admission)) {
		rate := controller.Admission{Rate: controller.Rate{PerSecond: 10, Burst: 5}}
		admit(rate)
		require.Equal(t, 5, flood(st, time.Nanosecond, 10))
		admit(rate)
		require.Zero(t, flood(st, time.Nanosecond, 10), "the same rate again is no new one")
		time.Sleep(time.Hour)
		require.Equal(t, 5, flood(st, time.Nanosecond, 10))
		admit(controller.Admission{})
		require.Equal(t, 10, flood(st, time.Nanosecond, 10), "there is no limit any more")
		sheet := Snapshot(st.rooms)[0]
		require.EqualValues(t, 20, sheet.Rejected[ReasonRate])
	})
}

func TestWhoIsOverTheLimitWaits(t *testing.T) {
	eachDoor(t, func(t *testing.T, st *street, admit func(controller.Admission)) {
		admit(controller.Admission{Limit: 2})
		v := st.hire()
		st.many(0, 2)
		in := make(chan error, 3)
		for i := range 3 {
			go func() { in <- bring(t.Context(), st.rooms[0], i) }()
		}
		synctest.Wait()
		require.Empty(t, in)
		v.turn(false)
		synctest.Wait()
		require.Empty(t, in, "in hand is in flight")
		v.turn(false)
		synctest.Wait()
		require.Len(t, in, 1)
		v.turn(false)
		v.turn(false)
		v.turn(false)
		v.turn(false)
		synctest.Wait()
		require.Len(t, in, 3)
		require.NoError(t, errors.Join(<-in, <-in, <-in))
	})
}

func TestAHigherLimitLetsInWhoWaits(t *testing.T) {
	eachDoor(t, func(t *testing.T, st *street, admit func(controller.Admission)) {
		for _, next := range []int{0, 3} {
			admit(controller.Admission{Limit: 1})
			st.hire()
			in := make(chan error, 1)
			for st.InFlight() < 1 {
				st.many(0, 1)
			}
			go func() { in <- bring(t.Context(), st.rooms[0], 1) }()
			synctest.Wait()
			require.Empty(t, in)
			admit(controller.Admission{Limit: next})
			synctest.Wait()
			require.Len(t, in, 1, next)
			require.NoError(t, <-in)
			admit(controller.Admission{})
		}
	})
}

func TestWhoWaitsUnderALimitMayGiveUpOrFindTheDoorClosed(t *testing.T) {
	eachDoor(t, func(t *testing.T, st *street, admit func(controller.Admission)) {
		admit(controller.Admission{Limit: 1})
		st.many(0, 1)
		ctx, cancel := context.WithCancel(t.Context())
		in := make(chan error, 1)
		go func() { in <- bring(ctx, st.rooms[0], 1) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-in, context.Canceled)
		require.ErrorIs(t, bring(ctx, st.rooms[0], 1), context.Canceled)
		go func() { in <- bring(t.Context(), st.rooms[0], 1) }()
		synctest.Wait()
		st.rooms[0].Close()
		require.ErrorIs(t, <-in, ErrClosed)
		sheet := Snapshot(st.rooms)[0]
		require.EqualValues(t, 2, sheet.Rejected[ReasonCancelled])
		require.EqualValues(t, 1, sheet.Rejected[ReasonClosed])
		require.Zero(t, st.entrants.waiting.Load())
		require.Zero(t, st.rooms[0].reserved)
	})
}

func TestARoomThatDoesNotWaitRefusesWhatIsOverTheHousesLimit(t *testing.T) {
	for _, rule := range []Overflow{Reject, DropNewest, DropOldest} {
		st := newStreet(t, 1, func(c *Config) { c.Overflow = rule })
		st.SetAdmission(controller.Admission{Limit: 2})
		st.many(0, 2)
		require.ErrorIs(t, bring(t.Context(), st.rooms[0], 1), ErrFull)
		require.EqualValues(t, 1, Snapshot(st.rooms)[0].Rejected[ReasonFull])
	}
}

// inside is the context of a handler.
type inside struct {
	r      *Inbox
	shared bool
}

func (x inside) Inbox() *Inbox { return x.r }
func (x inside) Shared() bool  { return x.shared }
func (x inside) Attempt() int  { return 1 }

func (x inside) ctx(t *testing.T) context.Context {
	t.Helper()
	return context.WithValue(t.Context(), behaviour.EmitterKey{}, x)
}

func TestAHandlerThatWouldWaitForItselfIsRefused(t *testing.T) {
	st := newStreet(t, 2, func(c *Config) { c.Capacity = 1 })
	st.many(0, 1)
	st.many(1, 1)
	require.ErrorContains(t, bring(inside{r: st.rooms[1]}.ctx(t), st.rooms[0], 1), "on a back edge")
	require.ErrorContains(t, bring(inside{st.rooms[0], true}.ctx(t), st.rooms[1], 1), "whose worker is shared")
	for _, in := range st.rooms {
		require.EqualValues(t, 1, in.counts.losses().rejected[rejectedFull])
	}
	st.SetAdmission(controller.Admission{Limit: 1})
	st.rooms[1].Adjust(func(k *Knobs) { k.Capacity = 9 })
	require.ErrorIs(t, bring(inside{r: st.rooms[0]}.ctx(t), st.rooms[1], 1), ErrFull, "nor for the house")
	synctest.Test(t, func(t *testing.T) {
		st := newStreet(t, 2, func(c *Config) { c.Capacity = 1 })
		st.many(1, 1)
		in := make(chan error, 1)
		go func() { in <- bring(inside{r: st.rooms[0]}.ctx(t), st.rooms[1], 1) }()
		synctest.Wait()
		require.Empty(t, in, "one of a room's own waits, on a way ahead")
		v := st.hire()
		v.turn(false)
		require.NoError(t, <-in)
	})
}

func TestWhatMattersLessThanSoMuchIsShed(t *testing.T) {
	eachDoor(t, func(t *testing.T, st *street, admit func(controller.Admission)) {
		admit(controller.Admission{Shed: controller.Shed{Below: 1}})
		for cmd, in := range map[any]bool{
			job{prio: 1}: true, job{prio: 2}: true, job{prio: 0}: false, job{prio: -1}: false,
			job{burst: true}: false, "asks for nothing": false,
		} {
			err := bring(t.Context(), st.rooms[0], cmd)
			require.Equal(t, in, err == nil, "%v", cmd)
			if err != nil {
				require.ErrorIs(t, err, ErrPolicy)
			}
		}
		require.EqualValues(t, 4, Snapshot(st.rooms)[0].Rejected[ReasonPolicy])
		admit(controller.Admission{Shed: controller.Shed{Below: 0}})
		require.NoError(t, bring(t.Context(), st.rooms[0], job{}))
	})
}

func TestSoManyAreShedByChance(t *testing.T) {
	const n = 4000
	for p, bounds := range map[float64][2]int{0: {0, 0}, 0.25: {800, 1200}, 0.75: {2800, 3200}, 1: {n, n}} {
		eachDoor(t, func(t *testing.T, st *street, admit func(controller.Admission)) {
			admit(controller.Admission{Shed: controller.Shed{Probability: p}})
			shed := 0
			for range n {
				if bring(t.Context(), st.rooms[0], 1) != nil {
					shed++
				}
			}
			require.GreaterOrEqual(t, shed, bounds[0], p) // seven deviations: once in ten to the twelfth
			require.LessOrEqual(t, shed, bounds[1], p)
		})
	}
}

// gate asks a function.
type gate func(cmd any, queued, capacity int) error

func (g gate) Admit(cmd any, queued, capacity int) error { return g(cmd, queued, capacity) }

func TestAGateIsAskedAndMayRefuseOrPanic(t *testing.T) {
	odd := errors.New("odd")
	eachDoor(t, func(t *testing.T, st *street, admit func(controller.Admission)) {
		var asked []string
		admit(controller.Admission{Gate: gate(func(cmd any, queued, capacity int) error {
			asked = append(asked, fmt.Sprint(cmd, queued, capacity))
			switch {
			case cmd == 3:
				panic("three")
			case cmd.(int)%2 == 1:
				return odd
			}
			return nil
		})})
		require.NoError(t, bring(t.Context(), st.rooms[0], 2))
		err := bring(t.Context(), st.rooms[0], 1)
		require.ErrorIs(t, err, odd)
		require.ErrorIs(t, err, ErrPolicy)
		err = bring(t.Context(), st.rooms[0], 3)
		require.ErrorIs(t, err, errGate)
		require.ErrorContains(t, err, "three")
		require.Equal(t, []string{"2 0 100000", "1 1 100000", "3 1 100000"}, asked)
		require.EqualValues(t, 2, Snapshot(st.rooms)[0].Rejected[ReasonPolicy])
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, bring(ctx, st.rooms[0], 2), context.Canceled)
		st.rooms[0].Close()
		require.ErrorIs(t, bring(t.Context(), st.rooms[0], 2), ErrClosed)
		require.Len(t, asked, 3, "who has gone and who comes too late is not asked about")
	})
}

// A gate may look at the inbox, and at itself: it is asked without a lock.
func TestAGateMaySubmitAndLookAround(t *testing.T) {
	st := newStreet(t, 1)
	st.rooms[0].SetAdmission(controller.Admission{Gate: gate(func(cmd any, _, _ int) error {
		if cmd == 1 {
			Snapshot(st.rooms)
			return bring(t.Context(), st.rooms[0], 2)
		}
		return nil
	})})
	require.NoError(t, bring(t.Context(), st.rooms[0], 1))
	require.Equal(t, 2, st.rooms[0].Len())
}

func TestWhatIsRefusedByOneDoorIsNotLetInByTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStreet(t, 2)
		st.SetAdmission(controller.Admission{Rate: controller.Rate{PerSecond: 1, Burst: 3}})
		st.rooms[0].SetAdmission(controller.Admission{Rate: controller.Rate{PerSecond: 1, Burst: 1}})
		let := [2]int{}
		for range 5 {
			for i, in := range st.rooms {
				if bring(t.Context(), in, 1) == nil {
					let[i]++
				}
			}
		}
		require.Equal(t, 1, let[0])
		require.LessOrEqual(t, let[0]+let[1], 3)
	})
}

func TestWhatOneRoomHandsToAnotherIsNotAskedAtTheDoor(t *testing.T) {
	st := newStreet(t, 1)
	a := controller.Admission{Rate: controller.Rate{PerSecond: 1, Burst: 1}, Shed: controller.Shed{Probability: 1}}
	st.SetAdmission(a)
	st.rooms[0].SetAdmission(a)
	require.Equal(t, 2, st.rooms[0].HandOver(&Member{}, []command.Envelope{{Cmd: 1}, {Cmd: 2}}, 0, false, false))
}

func TestADisabledRoomTakesNothingAndTheHouseIsTold(t *testing.T) {
	st := newStreet(t, 2)
	st.rooms[1].Adjust(func(k *Knobs) { k.Disabled = true })
	require.ErrorIs(t, bring(t.Context(), st.rooms[1], 1), ErrDisabled)
	require.Equal(t, 2, st.rooms[1].HandOver(&Member{}, []command.Envelope{{Cmd: 1}, {Cmd: 2}}, 0, false, true))
	require.Len(t, st.ends, 2)
	require.Equal(t, ReasonDisabled, st.ends[0].Reason)
	require.NoError(t, st.rooms[1].Send(t.Context(), command.Envelope{Cmd: 3}, nil, false, false))
	require.Len(t, st.ends, 3)
	require.Zero(t, st.rooms[1].reserved)
	require.Zero(t, st.rooms[1].Load())
}

// A stage's limit holds back whom its own pipeline feeds, too.
func TestALimitHoldsForWhatIsHandedOver(t *testing.T) {
	st := newStreet(t, 1, func(c *Config) { c.Capacity = 4 })
	in := st.rooms[0]
	in.Bind(nil)
	in.SetAdmission(controller.Admission{Limit: 3})
	v, up := st.employ(in), &visitor{st: st}
	up.Wake = func() { up.woken++ }
	es := []command.Envelope{{Cmd: 1}, {Cmd: 2}, {Cmd: 3}, {Cmd: 4}, {Cmd: 5}}
	require.Equal(t, 3, in.HandOver(&up.Member, es, 0, false, true))
	v.turn(false)
	require.Zero(t, up.woken)
	v.turn(false)
	require.Zero(t, up.woken, "one place is free, less than half of the room")
	v.turn(false)
	require.Equal(t, 1, up.woken)
	require.Equal(t, 2, in.HandOver(&up.Member, es[3:], 0, false, true))
}

// suspender is the context of a task that may suspend, outside all stages.
type suspender struct {
	context.Context

	suspended int
}

func (s *suspender) Suspend(start func(wake func())) error {
	s.suspended++
	woken := make(chan struct{})
	start(func() { close(woken) })
	<-woken
	return context.Cause(s)
}

func TestATaskThatWaitsForTheHouseSuspends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStreet(t, 1)
		st.SetAdmission(controller.Admission{Limit: 1})
		st.submit(0, 1)
		ctx, cancel := context.WithCancel(t.Context())
		task := &suspender{Context: ctx}
		result := make(chan error, 1)
		go func() { result <- bring(task, st.rooms[0], 2) }()
		synctest.Wait()
		require.Equal(t, 1, task.suspended, "a coroutine that blocks holds up all others of its scheduler")
		st.hire().trail(2)
		require.NoError(t, <-result)

		go func() { result <- bring(task, st.rooms[0], 3) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		require.Equal(t, 1, st.rooms[0].Len())
	})
}
