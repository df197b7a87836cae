package room

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

// staffed is a room with workers who only count how often they are woken.
type staffed struct {
	*Room
	seats []*Seat
	woken []int
}

func newStaffed(workers int, cfg Config) *staffed {
	d := &staffed{Room: New(cfg), woken: make([]int, workers)}
	d.Adopt(&Host{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(End) {}})
	d.Open()
	for i := range workers {
		s := &Seat{Wake: func() { d.woken[i]++ }}
		d.Join(s, false)
		d.seats = append(d.seats, s)
	}
	return d
}

// A command comes while the one worker on its way is on its way out.
func TestAWorkerThatLeavesSendsAnotherToTheCommandThatCameMeanwhile(t *testing.T) {
	d := newStaffed(2, Config{Name: "r", Capacity: 4, Batch: 1, StreakEnds: time.Minute})
	var tally Tally
	batch := make([]command.Envelope, 1)
	require.Zero(t, d.Turn(d.seats[0], &tally, batch, true))
	require.Zero(t, d.Turn(d.seats[1], &tally, batch, true))
	d.Shrink(1)
	require.Equal(t, []int{1, 0}, d.woken, "the one that was idle for longest is to leave")
	require.NoError(t, d.Submit(t.Context(), &command.Envelope{Cmd: 1}))
	require.Equal(t, []int{1, 0}, d.woken, "somebody is on the way already")
	require.Equal(t, -1, d.Turn(d.seats[0], &tally, batch, true))
	require.Equal(t, []int{1, 1}, d.woken, "it passes the word on")
	require.Equal(t, 1, d.Turn(d.seats[1], &tally, batch, true))
}

// What a crash gives back is work for a worker who is idle.
func TestAnIdleWorkerIsSentToWhatACrashGaveBack(t *testing.T) {
	d := newStaffed(2, Config{Name: "r", Capacity: 4, Batch: 4, StreakEnds: time.Minute})
	d.limit = 4
	var tally Tally
	batch := make([]command.Envelope, 4)
	for cmd := range 3 {
		require.NoError(t, d.Submit(t.Context(), &command.Envelope{Cmd: cmd}))
	}
	n := d.Turn(d.seats[0], &tally, batch, true)
	require.Equal(t, 2, n, "a fair share")
	rest := make([]command.Envelope, 4)
	require.Equal(t, 1, d.Turn(d.seats[1], &tally, rest, true))
	tally.OK = 1
	require.Zero(t, d.Turn(d.seats[1], &tally, rest, true), "idle")
	batch[0].Tries++
	d.Crash(d.seats[0], &tally, &batch[0], batch[1:n], false, ErrStopped)
	require.Equal(t, []int{0, 1}, d.woken)
	require.Equal(t, 1, d.Turn(d.seats[1], &tally, rest, true))
	require.Equal(t, 1, rest[0].Cmd)
}
