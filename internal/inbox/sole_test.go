package inbox

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

// newBrisk is an inbox with two workers, both idle, whose handlers are known to take a microsecond.
func newBrisk(t *testing.T) *staffed {
	t.Helper()
	d := newStaffed(2, Config{Name: "r", Capacity: 100, Batch: 100, StreakEnds: time.Minute})
	d.limit, d.service = 100, time.Microsecond
	for _, m := range d.seats {
		require.Zero(t, d.Turn(m, new(Tally), true))
	}
	return d
}

// calls is how often each worker has been called. The lock is for those whom the watch calls.
func (d *staffed) calls() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.woken)
}

func (d *staffed) submit(t *testing.T, n int) {
	t.Helper()
	for cmd := range n {
		require.NoError(t, d.Submit(t.Context(), &command.Envelope{Cmd: cmd}))
	}
}

// begin has the last worker that was parked take what one command brought.
func (d *staffed) begin(t *testing.T) {
	t.Helper()
	d.submit(t, 1)
	require.Equal(t, []int{0, 1}, d.calls(), "nobody is at work, so one is called")
	require.Equal(t, 1, d.Turn(d.seats[1], new(Tally), true))
}

func TestAQueueThatIsSoonDoneIsLeftToWhoIsAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBrisk(t)
		d.begin(t)
		d.submit(t, int(soon/time.Microsecond))
		require.Equal(t, []int{0, 1}, d.calls())
		d.submit(t, 1)
		require.Equal(t, []int{1, 1}, d.calls(), "one more is one too many")
	})
}

func TestWhoIsLeftAloneTakesAllThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBrisk(t)
		d.begin(t)
		d.submit(t, 10)
		require.Equal(t, 10, d.Turn(d.seats[1], &Tally{OK: 1}, true))
		d.submit(t, 30)
		require.Equal(t, 15, d.Turn(d.seats[1], &Tally{OK: 10}, true), "that is work for two")
		require.Equal(t, []int{1, 1}, d.calls())
	})
}

func TestWhoIsLeftAloneAndNotHeardOfIsHelped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBrisk(t)
		d.begin(t)
		d.submit(t, 3)
		time.Sleep(stillness - 1)
		synctest.Wait()
		require.Equal(t, []int{0, 1}, d.calls())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, []int{1, 1}, d.calls())
		require.Equal(t, 3, d.Turn(d.seats[0], new(Tally), true))
	})
}

func TestWhoIsLeftAloneAndGetsOnIsNotHelped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBrisk(t)
		d.begin(t)
		d.submit(t, 1)
		for range 20 {
			time.Sleep(stillness / 2)
			require.Equal(t, 1, d.Turn(d.seats[1], &Tally{OK: 1}, true))
			d.submit(t, 1)
		}
		require.Equal(t, []int{0, 1}, d.calls())
		time.Sleep(2 * stillness) // and now it does not
		synctest.Wait()
		require.Equal(t, []int{1, 1}, d.calls())
	})
}

// It is not at work, though its commands are still in its hand.
func TestAQueueIsNotLeftToWhoWaitsForRoomElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBrisk(t)
		d.begin(t)
		d.submit(t, 1)
		require.Equal(t, []int{0, 1}, d.calls())
		d.Blocked(d.seats[1], new(Tally), d.Pipeline().Now())
		require.Equal(t, []int{1, 1}, d.calls(), "another comes at once for what was left to it")
		require.Equal(t, 1, d.Turn(d.seats[0], new(Tally), true))
		require.Zero(t, d.Turn(d.seats[0], &Tally{OK: 1}, true))
		d.Blocked(d.seats[1], new(Tally), d.Pipeline().Now())
		d.submit(t, 1)
		require.Equal(t, []int{2, 1}, d.calls(), "it is still away")
		require.Equal(t, 1, d.Turn(d.seats[1], &Tally{Forwarded: 1}, true))
		require.Zero(t, d.Turn(d.seats[0], new(Tally), true))
		d.submit(t, 1)
		require.Equal(t, []int{2, 1}, d.calls(), "it is back at work")
	})
}

func TestAQueueWhoseWorkIsNotKnownIsNotLeftToOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBrisk(t)
		d.service = 0
		d.begin(t)
		d.submit(t, 1)
		require.Equal(t, []int{1, 1}, d.calls())
	})
}

func TestAQueueIsLeftToWhoIsAboutToLookOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBrisk(t)
		d.begin(t)
		require.Zero(t, d.Turn(d.seats[1], &Tally{OK: 1}, false))
		d.submit(t, 2)
		require.Equal(t, []int{0, 1}, d.calls())
		require.Equal(t, 2, d.Turn(d.seats[1], new(Tally), true))
		require.Zero(t, d.Turn(d.seats[1], &Tally{OK: 2}, false))
		d.Leave(d.seats[1])
		d.submit(t, 1)
		require.Equal(t, []int{1, 1}, d.calls(), "it has left")
	})
}
