package inbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

func TestOnlyAHaltedInboxAbandonsAWorkerAndOnlyOneThatDoesNotDeliver(t *testing.T) {
	var ends []Ending
	pl := &Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(e Ending) { ends = append(ends, e) }}
	in := New(Config{Name: "r", Capacity: 8, Batch: 8, Linger: time.Nanosecond, Instances: 1})
	require.True(t, pl.Attach(in))
	in.Phases().Open()
	m := &Member{Wake: func() {}}
	in.Workers().Join(m, false)
	for i := range 3 {
		require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: i}))
	}
	time.Sleep(time.Microsecond) // longer than a batch lingers
	var tally Tally
	require.Equal(t, 3, in.Turn(m, &tally, true))
	require.Equal(t, []*Member{m}, in.Batches().Holders())
	require.Nil(t, in.Batches().Abandon(m, ErrStopped), "the inbox is not halted")
	tally.OK = 1
	require.True(t, in.Book(m, &tally, nil))
	in.Phases().Halt()()
	m.Delivers = true
	require.Nil(t, in.Batches().Abandon(m, ErrStopped), "the worker delivers")
	m.Delivers = false
	report := in.Batches().Abandon(m, ErrStopped)
	require.NotNil(t, report)
	report()
	require.Len(t, ends, 2, "the commands that were not booked")
	require.Equal(t, []any{1, 2}, []any{ends[0].Cmd, ends[1].Cmd})
	require.Empty(t, in.Batches().Holders())
	require.Nil(t, in.Batches().Abandon(m, ErrStopped), "it was abandoned already")
	before := Counts([]*Inbox{in})
	late := Tally{OK: 2}
	require.False(t, in.Book(m, &late, nil))
	require.False(t, in.Book(m, &late, &Retried{Command: command.Envelope{Load: 1}}))
	require.False(t, in.Book(m, &late, &Crashed{Culprit: &m.Batch[1], Rest: m.Batch[2:3], Retry: true, Err: ErrStopped}))
	require.False(t, in.Book(m, &late, Unequipped(m.Batch[1:3], ErrStopped)))
	require.False(t, in.Book(m, &late, &Stopped{Commands: m.Batch[1:3]}))
	require.Equal(t, before, Counts([]*Inbox{in}))
	require.Len(t, ends, 2)
}

func TestAParkedWorkerKeepsNoReferenceToACommand(t *testing.T) {
	in := New(Config{Name: "r", Capacity: 8, Batch: 8, Instances: 1})
	require.True(t, (&Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1)}).Attach(in))
	in.Phases().Open()
	m := &Member{Wake: func() {}}
	in.Workers().Join(m, false)
	require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 1}))
	var tally Tally
	require.Equal(t, 1, in.Turn(m, &tally, true))
	require.Len(t, m.custody.copies, 1)
	tally.OK = 1
	require.Zero(t, in.Turn(m, &tally, true))
	require.Nil(t, m.custody.copies[:1][0].Load)
}
