package inbox

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

// newFastInbox returns an inbox with two idle workers. Its handlers are known to take a microsecond.
func newFastInbox(t *testing.T) *testInbox {
	t.Helper()
	in := newTestInbox(2, Config{Name: "r", Capacity: 100, Batch: 100, StreakEnds: time.Minute})
	in.state.pace.limit, in.state.pace.service = 100, time.Microsecond
	for _, m := range in.members {
		require.Zero(t, in.Turn(m, new(Tally), true))
	}
	return in
}

// wakes returns how often each worker has been woken. It takes the lock because the timer also wakes workers.
func (in *testInbox) wakes() []int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.woken)
}

func (in *testInbox) submit(t *testing.T, n int) {
	t.Helper()
	for cmd := range n {
		require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: cmd}))
	}
}

// takeFirst submits a command, and has the worker that was parked last take it.
func (in *testInbox) takeFirst(t *testing.T) {
	t.Helper()
	in.submit(t, 1)
	require.Equal(t, []int{0, 1}, in.wakes(), "no worker is at work, so one is woken")
	require.Equal(t, 1, in.Turn(in.members[1], new(Tally), true))
}

func TestAShortQueueIsLeftToTheWorkerAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFastInbox(t)
		in.takeFirst(t)
		in.submit(t, int(soon/time.Microsecond))
		require.Equal(t, []int{0, 1}, in.wakes())
		in.submit(t, 1)
		require.Equal(t, []int{1, 1}, in.wakes(), "with one more the queue is too long for one worker")
	})
}

func TestASoleWorkerTakesTheWholeQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFastInbox(t)
		in.takeFirst(t)
		in.submit(t, 10)
		require.Equal(t, 10, in.Turn(in.members[1], &Tally{OK: 1}, true))
		in.submit(t, 30)
		require.Equal(t, 15, in.Turn(in.members[1], &Tally{OK: 10}, true), "a long queue is shared by two")
		require.Equal(t, []int{1, 1}, in.wakes())
	})
}

func TestASoleWorkerThatMakesNoProgressIsHelped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFastInbox(t)
		in.takeFirst(t)
		in.submit(t, 3)
		time.Sleep(stillness - 1)
		synctest.Wait()
		require.Equal(t, []int{0, 1}, in.wakes())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, []int{1, 1}, in.wakes())
		require.Equal(t, 3, in.Turn(in.members[0], new(Tally), true))
	})
}

func TestASoleWorkerThatMakesProgressIsNotHelped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFastInbox(t)
		in.takeFirst(t)
		in.submit(t, 1)
		for range 20 {
			time.Sleep(stillness / 2)
			require.Equal(t, 1, in.Turn(in.members[1], &Tally{OK: 1}, true))
			in.submit(t, 1)
		}
		require.Equal(t, []int{0, 1}, in.wakes())
		time.Sleep(2 * stillness) // from now on it makes no progress
		synctest.Wait()
		require.Equal(t, []int{1, 1}, in.wakes())
	})
}

// A blocked worker is not at work, though it still has commands in hand.
func TestAQueueIsNotLeftToAWorkerThatIsBlockedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFastInbox(t)
		in.takeFirst(t)
		in.submit(t, 1)
		require.Equal(t, []int{0, 1}, in.wakes())
		in.Blocked(in.members[1], new(Tally), in.Pipeline().Now())
		require.Equal(t, []int{1, 1}, in.wakes(), "another is woken at once for the queue that was left to it")
		require.Equal(t, 1, in.Turn(in.members[0], new(Tally), true))
		require.Zero(t, in.Turn(in.members[0], &Tally{OK: 1}, true))
		in.Blocked(in.members[1], new(Tally), in.Pipeline().Now())
		in.submit(t, 1)
		require.Equal(t, []int{2, 1}, in.wakes(), "it is still blocked")
		require.Equal(t, 1, in.Turn(in.members[1], &Tally{Forwarded: 1}, true))
		require.Zero(t, in.Turn(in.members[0], new(Tally), true))
		in.submit(t, 1)
		require.Equal(t, []int{2, 1}, in.wakes(), "it is at work again")
	})
}

func TestAQueueOfUnknownServiceTimeIsNotLeftToOneWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFastInbox(t)
		in.state.pace.service = 0
		in.takeFirst(t)
		in.submit(t, 1)
		require.Equal(t, []int{1, 1}, in.wakes())
	})
}

func TestAQueueIsLeftToAWorkerThatIsAboutToLookOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newFastInbox(t)
		in.takeFirst(t)
		require.Zero(t, in.Turn(in.members[1], &Tally{OK: 1}, false))
		in.submit(t, 2)
		require.Equal(t, []int{0, 1}, in.wakes())
		require.Equal(t, 2, in.Turn(in.members[1], new(Tally), true))
		require.Zero(t, in.Turn(in.members[1], &Tally{OK: 2}, false))
		in.Workers().Leave(in.members[1])
		in.submit(t, 1)
		require.Equal(t, []int{1, 1}, in.wakes(), "it has left")
	})
}
