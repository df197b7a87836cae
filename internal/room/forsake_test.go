package room

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

func TestOnlyAHaltedRoomForsakesAndOnlyWhoDoesNotDeliver(t *testing.T) {
	var ends []End
	h := &Host{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(e End) { ends = append(ends, e) }}
	r := New(Config{Name: "r", Capacity: 8, Batch: 8, Linger: time.Nanosecond, Instances: 1})
	require.True(t, r.Adopt(h))
	r.Open()
	s := &Seat{Wake: func() {}}
	r.Join(s, false)
	for i := range 3 {
		require.NoError(t, r.Submit(t.Context(), &command.Envelope{Cmd: i}))
	}
	time.Sleep(time.Microsecond) // longer than it lingers
	var tally Tally
	require.Equal(t, 3, r.Turn(s, &tally, true))
	require.Equal(t, []*Seat{s}, r.Holders())
	require.Nil(t, r.Forsake(s, ErrStopped), "it is not halted")
	tally.OK = 1
	require.True(t, r.Book(s, &tally))
	r.Halt()()
	s.Delivers = true
	require.Nil(t, r.Forsake(s, ErrStopped), "it delivers")
	s.Delivers = false
	tell := r.Forsake(s, ErrStopped)
	require.NotNil(t, tell)
	tell()
	require.Len(t, ends, 2, "what was not booked")
	require.Equal(t, []any{1, 2}, []any{ends[0].Cmd, ends[1].Cmd})
	require.Empty(t, r.Holders())
	require.Nil(t, r.Forsake(s, ErrStopped), "it was")
	before := Counts([]*Room{r})
	late := Tally{OK: 2}
	require.False(t, r.Book(s, &late))
	require.False(t, r.Again(s, &late, command.Envelope{Cmd: 1}))
	require.False(t, r.Crash(s, &late, &s.Hand[1], s.Hand[2:3], true, ErrStopped))
	require.False(t, r.Unmade(s, &late, s.Hand[1:3], ErrStopped))
	require.False(t, r.End(s, &late, s.Hand[1:3]))
	require.Equal(t, before, Counts([]*Room{r}))
	require.Len(t, ends, 2)
}

func TestAParkedWorkerHoldsOnToNoCommand(t *testing.T) {
	r := New(Config{Name: "r", Capacity: 8, Batch: 8, Instances: 1})
	require.True(t, r.Adopt(&Host{Base: time.Now(), Quiet: make(chan struct{}, 1)}))
	r.Open()
	s := &Seat{Wake: func() {}}
	r.Join(s, false)
	require.NoError(t, r.Submit(t.Context(), &command.Envelope{Cmd: 1}))
	var tally Tally
	require.Equal(t, 1, r.Turn(s, &tally, true))
	require.Len(t, s.kept, 1)
	tally.OK = 1
	require.Zero(t, r.Turn(s, &tally, true))
	require.Nil(t, s.kept[:1][0].Cmd)
}
