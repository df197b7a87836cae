package inbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/gate"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage/reason"
)

// admissionPoints are the two places where admission rules apply: the inbox of a stage, and the pipeline.
var admissionPoints = map[string]func(*testbed, controller.Admission){
	"stage":    func(tb *testbed, a controller.Admission) { tb.inboxes[0].Settings().SetAdmission(a) },
	"pipeline": func(tb *testbed, a controller.Admission) { tb.SetAdmission(a) },
}

func eachAdmissionPoint(t *testing.T, f func(t *testing.T, tb *testbed, admit func(controller.Admission))) {
	t.Helper()
	for name, admit := range admissionPoints {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := newTestbed(t, 1, func(c *Config) { c.Capacity = 100_000 })
				f(t, tb, func(a controller.Admission) { admit(tb, a) })
			})
		})
	}
}

// submitEvery submits one command in every interval, and returns how many were accepted.
func submitEvery(tb *testbed, every, during time.Duration) (accepted int) {
	tb.t.Helper()
	for range int(during / every) {
		time.Sleep(every)
		switch err := submitTo(tb.t.Context(), tb.inboxes[0], 1); {
		case err == nil:
			accepted++
		default:
			require.ErrorIs(tb.t, err, gate.ErrRate)
		}
	}
	return accepted
}

func TestARateAdmitsTheRateAndABurst(t *testing.T) {
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
		eachAdmissionPoint(t, func(t *testing.T, tb *testbed, admit func(controller.Admission)) {
			admit(controller.Admission{Rate: test.rate})
			require.InDelta(t, test.want, submitEvery(tb, test.every, test.during), 1, "%v", test.rate)
		})
	}
}

// The rate adds a tenth of a command between two submissions: ten tenths must make one.
func TestARateAdmitsNoFewerCommandsWhenItIsCheckedOften(t *testing.T) {
	eachAdmissionPoint(t, func(t *testing.T, tb *testbed, admit func(controller.Admission)) {
		admit(controller.Admission{Rate: controller.Rate{PerSecond: 1000, Burst: 1}})
		require.InDelta(t, 1000, submitEvery(tb, 100*time.Microsecond, time.Second), 1)
	})
}

// A policy that often changes the rate a little must not admit a whole burst each time.
func TestAChangedRateKeepsWhatIsLeftOfTheBurst(t *testing.T) {
	eachAdmissionPoint(t, func(t *testing.T, tb *testbed, admit func(controller.Admission)) {
		accepted := 0
		for i := range 10 {
			admit(controller.Admission{Rate: controller.Rate{PerSecond: 1 + float64(i)/1000, Burst: 5}})
			accepted += submitEvery(tb, time.Nanosecond, 5)
		}
		require.Equal(t, 5, accepted, "almost no time has passed")
	})
}

func TestAnIdleTimeSavesUpNoMoreThanOneBurst(t *testing.T) {
	eachAdmissionPoint(t, func(t *testing.T, tb *testbed, admit func(controller.Admission)) {
		rate := controller.Admission{Rate: controller.Rate{PerSecond: 10, Burst: 5}}
		admit(rate)
		require.Equal(t, 5, submitEvery(tb, time.Nanosecond, 10))
		admit(rate)
		require.Zero(t, submitEvery(tb, time.Nanosecond, 10), "setting the same rate again adds no burst")
		time.Sleep(time.Hour)
		require.Equal(t, 5, submitEvery(tb, time.Nanosecond, 10))
		admit(controller.Admission{})
		require.Equal(t, 10, submitEvery(tb, time.Nanosecond, 10), "there is no rate any more")
		accounts := Snapshot(tb.inboxes)[0]
		require.EqualValues(t, 20, accounts.Reasons.Rejected[reason.Rate])
	})
}

func TestASubmitterOverTheLimitWaits(t *testing.T) {
	eachAdmissionPoint(t, func(t *testing.T, tb *testbed, admit func(controller.Admission)) {
		admit(controller.Admission{Limit: 2})
		w := tb.addWorker()
		tb.submitN(0, 2)
		result := make(chan error, 3)
		for i := range 3 {
			go func() { result <- submitTo(t.Context(), tb.inboxes[0], i) }()
		}
		synctest.Wait()
		require.Empty(t, result)
		w.turn(false)
		synctest.Wait()
		require.Empty(t, result, "a command in hand is in flight")
		w.turn(false)
		synctest.Wait()
		require.Len(t, result, 1)
		w.turn(false)
		w.turn(false)
		w.turn(false)
		w.turn(false)
		synctest.Wait()
		require.Len(t, result, 3)
		require.NoError(t, errors.Join(<-result, <-result, <-result))
	})
}

func TestAHigherLimitAdmitsWaitingSubmitters(t *testing.T) {
	eachAdmissionPoint(t, func(t *testing.T, tb *testbed, admit func(controller.Admission)) {
		for _, next := range []int{0, 3} {
			admit(controller.Admission{Limit: 1})
			tb.addWorker()
			result := make(chan error, 1)
			for tb.InFlight() < 1 {
				tb.submitN(0, 1)
			}
			go func() { result <- submitTo(t.Context(), tb.inboxes[0], 1) }()
			synctest.Wait()
			require.Empty(t, result)
			admit(controller.Admission{Limit: next})
			synctest.Wait()
			require.Len(t, result, 1, next)
			require.NoError(t, <-result)
			admit(controller.Admission{})
		}
	})
}

func TestASubmitterThatWaitsUnderALimitMayGiveUpOrFindTheInboxClosed(t *testing.T) {
	eachAdmissionPoint(t, func(t *testing.T, tb *testbed, admit func(controller.Admission)) {
		admit(controller.Admission{Limit: 1})
		tb.submitN(0, 1)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- submitTo(ctx, tb.inboxes[0], 1) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		require.ErrorIs(t, submitTo(ctx, tb.inboxes[0], 1), context.Canceled)
		go func() { result <- submitTo(t.Context(), tb.inboxes[0], 1) }()
		synctest.Wait()
		tb.inboxes[0].Phases().Close()
		require.ErrorIs(t, <-result, ErrClosed)
		accounts := Snapshot(tb.inboxes)[0]
		require.EqualValues(t, 2, accounts.Reasons.Rejected[reason.Cancelled])
		require.EqualValues(t, 1, accounts.Reasons.Rejected[reason.Closed])
		require.False(t, tb.entry.Waited())
		require.Zero(t, tb.inboxes[0].state.slots.reserved)
	})
}

func TestAnInboxThatDoesNotWaitRefusesCommandsOverThePipelinesLimit(t *testing.T) {
	for _, rule := range []Overflow{Reject, DropNewest, DropOldest} {
		tb := newTestbed(t, 1, func(c *Config) { c.Overflow = rule })
		tb.SetAdmission(controller.Admission{Limit: 2})
		tb.submitN(0, 2)
		require.ErrorIs(t, submitTo(t.Context(), tb.inboxes[0], 1), ErrFull)
		require.EqualValues(t, 1, Snapshot(tb.inboxes)[0].Reasons.Rejected[reason.Full])
	}
}

// handlerContext is the context of a handler.
type handlerContext struct {
	inbox  *Inbox
	shared bool
}

func (x handlerContext) Inbox() *Inbox { return x.inbox }
func (x handlerContext) Shared() bool  { return x.shared }
func (x handlerContext) Attempt() int  { return 1 }

func (x handlerContext) ctx(t *testing.T) context.Context {
	t.Helper()
	return context.WithValue(t.Context(), link.EmitterKey{}, x)
}

func TestAHandlerThatWouldWaitForItselfIsRefused(t *testing.T) {
	tb := newTestbed(t, 2, func(c *Config) { c.Capacity = 1 })
	tb.submitN(0, 1)
	tb.submitN(1, 1)
	require.ErrorContains(t, submitTo(handlerContext{inbox: tb.inboxes[1]}.ctx(t), tb.inboxes[0], 1), "on a back edge")
	require.ErrorContains(t, submitTo(handlerContext{tb.inboxes[0], true}.ctx(t), tb.inboxes[1], 1), "whose worker is shared")
	for _, in := range tb.inboxes {
		require.EqualValues(t, 1, in.state.counts.refused.reasons.Rejected[reason.Full])
	}
	tb.SetAdmission(controller.Admission{Limit: 1})
	tb.inboxes[1].Settings().Adjust(func(k *Knobs) { k.Capacity = 9 })
	require.ErrorIs(t, submitTo(handlerContext{inbox: tb.inboxes[0]}.ctx(t), tb.inboxes[1], 1), ErrFull, "nor does it wait for the pipeline's limit")
	synctest.Test(t, func(t *testing.T) {
		tb := newTestbed(t, 2, func(c *Config) { c.Capacity = 1 })
		tb.submitN(1, 1)
		result := make(chan error, 1)
		go func() { result <- submitTo(handlerContext{inbox: tb.inboxes[0]}.ctx(t), tb.inboxes[1], 1) }()
		synctest.Wait()
		require.Empty(t, result, "a stage's own worker waits for a stage ahead")
		w := tb.addWorker()
		w.turn(false)
		require.NoError(t, <-result)
	})
}

func TestCommandsBelowAPriorityAreShed(t *testing.T) {
	eachAdmissionPoint(t, func(t *testing.T, tb *testbed, admit func(controller.Admission)) {
		admit(controller.Admission{Shed: controller.Shed{Below: 1}})
		for cmd, accepted := range map[any]bool{
			job{prio: 1}: true, job{prio: 2}: true, job{prio: 0}: false, job{prio: -1}: false,
			job{panics: true}: false, "without a priority": false,
		} {
			err := submitTo(t.Context(), tb.inboxes[0], cmd)
			require.Equal(t, accepted, err == nil, "%v", cmd)
			if err != nil {
				require.ErrorIs(t, err, gate.ErrPolicy)
			}
		}
		require.EqualValues(t, 4, Snapshot(tb.inboxes)[0].Reasons.Rejected[reason.Policy])
		admit(controller.Admission{Shed: controller.Shed{Below: 0}})
		require.NoError(t, submitTo(t.Context(), tb.inboxes[0], job{}))
	})
}

func TestAShareOfTheCommandsIsShedAtRandom(t *testing.T) {
	const n = 4000
	for p, bounds := range map[float64][2]int{0: {0, 0}, 0.25: {800, 1200}, 0.75: {2800, 3200}, 1: {n, n}} {
		eachAdmissionPoint(t, func(t *testing.T, tb *testbed, admit func(controller.Admission)) {
			admit(controller.Admission{Shed: controller.Shed{Probability: p}})
			shed := 0
			for range n {
				if submitTo(t.Context(), tb.inboxes[0], 1) != nil {
					shed++
				}
			}
			require.GreaterOrEqual(t, shed, bounds[0], p) // seven standard deviations: a chance of one in ten to the twelfth
			require.LessOrEqual(t, shed, bounds[1], p)
		})
	}
}

// gateFunc is a gate that calls a function.
type gateFunc func(cmd any, queued, capacity int) error

func (g gateFunc) Admit(cmd any, queued, capacity int) error { return g(cmd, queued, capacity) }

func TestAGateMayRefuseACommandOrPanic(t *testing.T) {
	odd := errors.New("odd")
	eachAdmissionPoint(t, func(t *testing.T, tb *testbed, admit func(controller.Admission)) {
		var asked []string
		admit(controller.Admission{Gate: gateFunc(func(cmd any, queued, capacity int) error {
			asked = append(asked, fmt.Sprint(cmd, queued, capacity))
			switch {
			case cmd == 3:
				panic("three")
			case cmd.(int)%2 == 1:
				return odd
			}
			return nil
		})})
		require.NoError(t, submitTo(t.Context(), tb.inboxes[0], 2))
		err := submitTo(t.Context(), tb.inboxes[0], 1)
		require.ErrorIs(t, err, odd)
		require.ErrorIs(t, err, gate.ErrPolicy)
		err = submitTo(t.Context(), tb.inboxes[0], 3)
		require.ErrorIs(t, err, gate.ErrPanic)
		require.ErrorContains(t, err, "three")
		require.Equal(t, []string{"2 0 100000", "1 1 100000", "3 1 100000"}, asked)
		require.EqualValues(t, 2, Snapshot(tb.inboxes)[0].Reasons.Rejected[reason.Policy])
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, submitTo(ctx, tb.inboxes[0], 2), context.Canceled)
		tb.inboxes[0].Phases().Close()
		require.ErrorIs(t, submitTo(t.Context(), tb.inboxes[0], 2), ErrClosed)
		require.Len(t, asked, 3, "the gate is not asked about a submitter that has gone, or that comes too late")
	})
}

// A gate may submit to its inbox and read its accounts: it is called without the lock.
func TestAGateMaySubmitAndReadSnapshots(t *testing.T) {
	tb := newTestbed(t, 1)
	tb.inboxes[0].Settings().SetAdmission(controller.Admission{Gate: gateFunc(func(cmd any, _, _ int) error {
		if cmd == 1 {
			Snapshot(tb.inboxes)
			return submitTo(t.Context(), tb.inboxes[0], 2)
		}
		return nil
	})})
	require.NoError(t, submitTo(t.Context(), tb.inboxes[0], 1))
	require.Equal(t, 2, tb.inboxes[0].Len())
}

func TestACommandNeedsTheAdmissionOfTheStageAndOfThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTestbed(t, 2)
		tb.SetAdmission(controller.Admission{Rate: controller.Rate{PerSecond: 1, Burst: 3}})
		tb.inboxes[0].Settings().SetAdmission(controller.Admission{Rate: controller.Rate{PerSecond: 1, Burst: 1}})
		accepted := [2]int{}
		for range 5 {
			for i, in := range tb.inboxes {
				if submitTo(t.Context(), in, 1) == nil {
					accepted[i]++
				}
			}
		}
		require.Equal(t, 1, accepted[0])
		require.LessOrEqual(t, accepted[0]+accepted[1], 3)
	})
}

func TestAdmissionRulesDoNotApplyToHandedOverCommands(t *testing.T) {
	tb := newTestbed(t, 1)
	a := controller.Admission{Rate: controller.Rate{PerSecond: 1, Burst: 1}, Shed: controller.Shed{Probability: 1}}
	tb.SetAdmission(a)
	tb.inboxes[0].Settings().SetAdmission(a)
	require.Equal(t, 2, tb.inboxes[0].Senders().HandOver(&Member{}, []command.Envelope{{Load: 1}, {Load: 2}}, 0, false, false))
}

func TestADisabledInboxTakesNothingAndReportsHandedOverCommands(t *testing.T) {
	tb := newTestbed(t, 2)
	tb.inboxes[1].Settings().Adjust(func(k *Knobs) { k.Disabled = true })
	require.ErrorIs(t, submitTo(t.Context(), tb.inboxes[1], 1), ErrDisabled)
	require.Equal(t, 2, tb.inboxes[1].Senders().HandOver(&Member{}, []command.Envelope{{Load: 1}, {Load: 2}}, 0, false, true))
	require.Len(t, tb.ends, 2)
	require.Equal(t, reason.Disabled, tb.ends[0].Reason)
	require.NoError(t, tb.inboxes[1].Senders().Send(t.Context(), command.Envelope{Load: 3}, nil, false, false))
	require.Len(t, tb.ends, 3)
	require.Zero(t, tb.inboxes[1].state.slots.reserved)
	require.Zero(t, tb.inboxes[1].Load())
}

// A stage's limit also holds back the stages of its own pipeline.
func TestALimitAppliesToHandedOverCommands(t *testing.T) {
	tb := newTestbed(t, 1, func(c *Config) { c.Capacity = 4 })
	in := tb.inboxes[0]
	in.Settings().Bind(nil)
	in.Settings().SetAdmission(controller.Admission{Limit: 3})
	w, up := tb.addOwnWorker(in), &testWorker{st: tb}
	up.Wake = func() { up.woken++ }
	es := []command.Envelope{{Load: 1}, {Load: 2}, {Load: 3}, {Load: 4}, {Load: 5}}
	require.Equal(t, 3, in.Senders().HandOver(&up.Member, es, 0, false, true))
	w.turn(false)
	require.Zero(t, up.woken)
	w.turn(false)
	require.Zero(t, up.woken, "one slot is free, less than half of the inbox")
	w.turn(false)
	require.Equal(t, 1, up.woken)
	require.Equal(t, 2, in.Senders().HandOver(&up.Member, es[3:], 0, false, true))
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

func TestATaskThatWaitsForThePipelinesLimitSuspends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTestbed(t, 1)
		tb.SetAdmission(controller.Admission{Limit: 1})
		tb.submit(0, 1)
		ctx, cancel := context.WithCancel(t.Context())
		task := &suspender{Context: ctx}
		result := make(chan error, 1)
		go func() { result <- submitTo(task, tb.inboxes[0], 2) }()
		synctest.Wait()
		require.Equal(t, 1, task.suspended, "a coroutine that blocks would hold up all others of its scheduler")
		tb.addWorker().trail(2)
		require.NoError(t, <-result)

		go func() { result <- submitTo(task, tb.inboxes[0], 3) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		require.Equal(t, 1, tb.inboxes[0].Len())
	})
}

func TestASubmitterEntersWhenAWorkerThatEndsBooksTheLastCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTestbed(t, 1)
		in := tb.inboxes[0]
		tb.InFlight = in.Load
		tb.SetAdmission(controller.Admission{Limit: 1})
		m := &Member{Wake: func() {}}
		in.Settings().Bind(nil)
		in.Workers().Join(m, false)
		tb.submitN(0, 1)
		var tally Tally
		require.Equal(t, 1, in.Turn(m, &tally, true))
		result := make(chan error, 1)
		go func() { result <- submitTo(t.Context(), in, 1) }()
		synctest.Wait()
		require.Empty(t, result, "one command is in flight")
		tally.OK = 1
		in.Book(m, &tally, nil)
		in.Workers().Leave(m)
		synctest.Wait()
		require.Len(t, result, 1)
		require.NoError(t, <-result)
	})
}
