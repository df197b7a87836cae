package inbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

// newSuspendingKeyed returns the inbox of a keyed stage whose handlers suspend and at most two of which are under way, and a
// worker of it. The commands are their own keys.
func newSuspendingKeyed() (*Inbox, *Member) {
	in := New(Config{
		Name: "keyed", Capacity: 8, Batch: 4, Instances: 2, StreakEnds: time.Minute,
		Key: func(cmd any) uint64 { return uint64(cmd.(int)) },
	})
	in.Settings().SetSuspends()
	in.state.pace.limit = 4
	newPipeline().Attach(in)
	in.Phases().Open()
	m := &Member{Wake: func() {}}
	in.Instances().Claim(m)
	in.Workers().Join(m, false)
	return in, m
}

func submitKeys(t *testing.T, in *Inbox, keys ...int) {
	t.Helper()
	for _, k := range keys {
		require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: k}))
	}
}

// Otherwise it might carry something for ever, and the keys of what has left would never be free.
func TestAWorkerThatCarriesResultsOfKeysStartsNothing(t *testing.T) {
	in, m := newSuspendingKeyed()
	var tally Tally
	submitKeys(t, in, 1, 2)
	require.Equal(t, 2, in.Turn(m, &tally, true))
	m.Part.End(0)
	run := &m.Batch[1]
	tally.OK, tally.Suspended = 1, 1
	in.Carry(m, 1)
	submitKeys(t, in, 1, 3)
	require.Zero(t, in.Turn(m, &tally, true))
	in.Batches().Resume(command.Envelope{Load: &run})
	require.Equal(t, 1, in.Turn(m, &tally, true), "it goes on with what was started")
	require.True(t, m.Batch[0].Woken())
	tally.Suspended = 1
	in.Carry(m, 0)
	require.Equal(t, 1, in.Turn(m, &tally, true))
	require.Equal(t, 3, m.Batch[0].Load, "which came first when key 1 was not free")
}

func TestACommandThatEndsInTheMiddleOfABatchMakesRoomForAnother(t *testing.T) {
	for name, end := range map[string]func(in *Inbox, m *Member, tally *Tally){
		"it is done": func(in *Inbox, m *Member, tally *Tally) { tally.OK++; in.Book(m, tally, nil) },
		"it has expired": func(in *Inbox, m *Member, tally *Tally) {
			in.Book(m, tally, &Unbegun{Commands: m.Batch[:1], Expired: true})
		},
		"it is not begun": func(in *Inbox, m *Member, tally *Tally) { in.Book(m, tally, &Unbegun{Commands: m.Batch[:1]}) },
	} {
		t.Run(name, func(t *testing.T) {
			in, m := newSuspendingKeyed()
			woken := 0
			other := &Member{Wake: func() { woken++ }}
			var tally, others Tally
			submitKeys(t, in, 1, 2)
			require.Equal(t, 2, in.Turn(m, &tally, true))
			in.Instances().Claim(other)
			in.Workers().Join(other, false)
			require.Zero(t, in.Turn(other, &others, true))
			submitKeys(t, in, 3)
			require.Zero(t, woken, "as many are under way as may be")
			end(in, m, &tally)
			require.Equal(t, 1, woken)
			require.Equal(t, 1, in.Turn(other, &others, true))
			require.Equal(t, 3, other.Batch[0].Load)
		})
	}
}
