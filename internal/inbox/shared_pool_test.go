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
func TestAnIdleWorkerWithoutAnInstanceIsNotWokenInPlaceOfOneThatHasIt(t *testing.T) {
	tb := newTestbed(t, 1, func(c *Config) { c.Instances = 1 })
	tb.inboxes[0].Settings().Bind(nil)
	has, lacks := tb.addOwnWorker(tb.inboxes[0]), tb.addOwnWorker(tb.inboxes[0])
	has.turn(true)
	lacks.turn(true)
	tb.submit(0, "work")
	for range 4 {
		for _, w := range []*testWorker{has, lacks} {
			if w.Ready() {
				w.turn(true)
			}
		}
	}
	require.Zero(t, tb.inboxes[0].Len(), "a worker with an instance is idle, and was not woken")
}

// A blocked worker is parked until half of the inbox is free. Under a small limit half of the capacity is never free.
func TestABlockedWorkerIsWokenUnderASmallLimit(t *testing.T) {
	tb := newTestbed(t, 2)
	in := tb.inboxes[1]
	in.Settings().Bind(nil)
	in.Settings().SetAdmission(controller.Admission{Limit: 2})
	up, down := tb.addOwnWorker(tb.inboxes[0]), tb.addOwnWorker(in)
	tb.submitN(1, 2)
	require.Zero(t, in.Senders().HandOver(&up.Member, []command.Envelope{{Load: 1}}, 0, false, true))
	for range 3 {
		down.turn(true)
	}
	require.Zero(t, in.Load())
	require.True(t, up.Ready(), "the inbox is empty, and the worker was not woken")
}

func TestADismissedWorkerMakesWayForASubmitterThatWaitsUnderALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTestbed(t, 1)
		in := tb.inboxes[0]
		in.Settings().Bind(nil)
		in.Settings().SetAdmission(controller.Admission{Limit: 1})
		w := tb.addOwnWorker(in)
		tb.submit(0, 1)
		w.turn(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		entered := make(chan error, 1)
		go func() { entered <- submitTo(ctx, in, 2) }()
		synctest.Wait()
		in.Workers().Shrink(1)
		_, gone := w.turn(true)
		require.Equal(t, []any{"gone"}, gone)
		require.NoError(t, <-entered, "the inbox is empty")
		require.Equal(t, 1, tb.InFlight(), "the command that waited, and no other")
	})
}

func TestACrashMakesWayForASubmitterThatWaitsUnderALimit(t *testing.T) {
	for _, ofPipeline := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tb := newTestbed(t, 2)
			limit := controller.Admission{Limit: 1}
			if ofPipeline {
				tb.SetAdmission(limit)
			} else {
				tb.inboxes[0].Settings().SetAdmission(limit)
			}
			w := tb.addWorker()
			tb.submit(0, 1)
			w.turn(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			result := make(chan error, 1)
			go func() { result <- submitTo(ctx, tb.inboxes[0], 2) }()
			synctest.Wait()
			w.crash(false)
			w = tb.addWorker()
			w.turn(true)
			require.NoError(t, <-result, "the command is a dead letter; limit of the pipeline: %v", ofPipeline)
		})
	}
}

func TestAHaltEndsTheWaitForThePipelinesLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTestbed(t, 1)
		tb.SetAdmission(controller.Admission{Limit: 1})
		tb.submit(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		result := make(chan error, 1)
		go func() { result <- submitTo(ctx, tb.inboxes[0], 2) }()
		synctest.Wait()
		tb.inboxes[0].Phases().Halt()()
		require.ErrorIs(t, <-result, ErrClosed)
		require.NoError(t, ctx.Err(), "the submitter was not signalled")
	})
}

// The inbox computes how many tokens it wants, then gives them one by one. The mode changes in between: the test does that in
// the Wake of the worker that the first token calls.
func TestTokensGivenWhileTheModeChangesAreTakenBackToo(t *testing.T) {
	tb := newTestbed(t, 1)
	w := tb.addWorker()
	w.turn(true)
	changed := make(chan struct{})
	w.Wake = func() {
		if tb.pool.Polled() {
			return
		}
		go func() {
			defer close(changed)
			tb.pool.SetDispatch(controller.Polled)
		}()
		for !tb.pool.Polled() { //nolint:revive // wait until it has changed
		}
	}
	es := []command.Envelope{{Load: 1}, {Load: 2}, {Load: 3}}
	require.Equal(t, 3, tb.inboxes[0].Senders().HandOver(&Member{}, es, 0, false, false))
	<-changed
	require.EqualValues(t, 1, tokensIn(tb.pool), "one inbox has work")
}

func TestAWorkerWithATokenMayArriveAfterTheModeHasChanged(t *testing.T) {
	tb := newTestbed(t, 2)
	w := tb.addWorker()
	tb.submit(0, 1)
	b, era := tb.pool.Next(&w.visit.way)
	require.Same(t, tb.inboxes[0], b.Inbox())
	tb.pool.SetDispatch(controller.Polled)
	b.Inbox().Settings().Adjust(func(k *Knobs) { k.Paused = true })
	require.NotPanics(t, func() { require.Zero(t, tb.pool.enter(b, era, &w.Member)) })
}

func TestARestingInboxIsNotServed(t *testing.T) {
	for _, mode := range []controller.Dispatch{controller.SharedFIFO, controller.SharedPriority, controller.Polled} {
		synctest.Test(t, func(t *testing.T) {
			tb := newTestbed(t, 1)
			tb.pool.SetDispatch(mode)
			w := tb.addWorker()
			tb.submitN(0, 3)
			tb.inboxes[0].Rest(time.Minute)
			w.turn(true)
			require.Zero(t, w.n, "%v", mode)
			tb.pass(time.Minute)
			require.Equal(t, 1, w.woken, "%v", mode)
			w.turn(true)
			require.NotZero(t, w.n, "%v", mode)
			tb.inboxes[0].Rest(time.Minute)
			w.turn(false)
			require.Zero(t, w.n, "in the middle of a visit, %v", mode)
			tb.pass(time.Minute)
		})
	}
}

func TestTheLongerOfTwoRestsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTestbed(t, 1)
		w := tb.addWorker()
		w.turn(true)
		tb.inboxes[0].Rest(time.Minute)
		tb.inboxes[0].Rest(time.Second)
		tb.submit(0, 1)
		tb.pass(2 * time.Second)
		require.Zero(t, w.woken)
		tb.pass(time.Minute)
		require.Equal(t, 1, w.woken)
	})
}

// A shared worker never waits for a free slot. An inbox that drops must not grow without end because of that.
func TestAnInboxThatDropsAlsoDropsCommandsFromASharedPool(t *testing.T) {
	for _, rule := range []Overflow{Reject, DropNewest, DropOldest} {
		tb := newTestbed(t, 2, func(c *Config) { c.Capacity, c.Overflow = 2, rule })
		w := tb.addWorker()
		tb.inboxes[1].Settings().Adjust(func(k *Knobs) { k.Paused = true })
		for i := range 10 {
			tb.submit(0, i)
			w.next(false)
			w.forward(tb.inboxes[1], true)
		}
		require.LessOrEqual(t, tb.inboxes[1].Len(), 2, ruleNames[rule])
	}
}

// A shared worker that crashed still hands over the commands that it handled before. In an inbox with one instance, which
// keeps commands in order, no other worker may take the commands that the crash gave back until then.
func TestACrashedWorkerKeepsItsPlaceAtTheInboxUntilItHasHandedOver(t *testing.T) {
	tb := newTestbed(t, 2, func(c *Config) { c.Instances, c.Batch = 1, 4 })
	tb.inboxes[0].state.pace.limit = 4
	w, w2 := tb.addWorker(), tb.addWorker()
	tb.submitN(0, 6)
	_, cmds := w.turn(true)
	require.Equal(t, []any{0, 1, 2, 3}, cmds)
	batch := w.Batch[:w.n]
	done := []command.Envelope{batch[0]}
	w.tally.Forwarded = 1
	batch[1].Failed()
	tb.inboxes[0].Book(&w.Member, &w.tally, &Crashed{Culprit: &batch[1], Rest: batch[2:], Err: ErrStopped})
	_, cmds = w2.turn(true)
	require.Empty(t, cmds, "%v overtake %v", cmds, done[0].Load)
	require.Equal(t, 1, tb.inboxes[1].Senders().HandOver(&w.Member, done, 0, true, false))
	tb.pool.Leave(&w.Member, &w.tally)
	tb.inboxes[0].Yield(&w.Member)
	tb.inboxes[0].Instances().Return(&w.Member)
	_, cmds = w2.turn(true)
	require.Equal(t, []any{0}, cmds, "the command that was handed over comes first")
	_, cmds = w2.turn(true)
	require.Equal(t, []any{2, 3, 4, 5}, cmds)
}

func TestTheEndOfARoundIsReportedOnceThoughAnInboxJoinsThePoolMeanwhile(t *testing.T) {
	tb := newTestbed(t, 3)
	tb.inboxes[2].Settings().Bind(nil)
	tb.polled(&controller.VisitPlan{})
	w := tb.addWorker()
	tb.submitN(1, 2)
	w.turn(false) // A, then to B
	tb.inboxes[2].Settings().Bind(tb.pool)
	for range 8 {
		w.turn(false)
	}
	require.Equal(t, 1, tb.rounds)
}

// A plan with Now decides which inbox is visited next.
func TestAnIdleWorkerFollowsAPlanThatTakesEffectNow(t *testing.T) {
	tb := newTestbed(t, 2)
	tb.polled(&controller.VisitPlan{})
	w := tb.addWorker()
	w.turn(true)
	tb.submit(0, 1)
	tb.submit(1, 1)
	tb.pool.SetPlan(&controller.VisitPlan{Order: []controller.StageID{1, 0}, Now: true})
	require.Equal(t, []string{"B", "A"}, w.trail(2))
}

// An inbox that is stalled because one ahead is full is served again when that one is halted.
func TestAHaltUnstallsTheInboxesBehind(t *testing.T) {
	tb := newTestbed(t, 2, func(c *Config) { c.Capacity = 2 })
	tb.inboxes[0].Settings().Ahead(tb.inboxes[1])
	w := tb.addWorker()
	tb.inboxes[1].Settings().Adjust(func(k *Knobs) { k.Paused = true })
	tb.submitN(1, 2)
	tb.submitN(0, 2)
	in, _ := w.turn(true)
	require.Nil(t, in)
	tb.inboxes[1].Phases().Halt()()
	require.True(t, w.Ready())
	in, _ = w.turn(true)
	require.Same(t, tb.inboxes[0], in)
}

// Turn checks first whether the worker is to leave, then looks for work, and parks last. Here the request to leave comes in
// between.
func TestAWorkerThatIsAboutToParkIsDismissedToo(t *testing.T) {
	tb := newTestbed(t, 1)
	w := tb.addWorker()
	require.False(t, tb.pool.Arrive(&w.attendance))
	tb.pool.Shrink(1)
	if tb.pool.Park(&w.attendance, &w.visit.way) {
		require.True(t, w.Ready(), "it is parked, and will not be woken")
	}
	_, cmds := w.turn(true)
	require.Equal(t, []any{"gone"}, cmds)
}
