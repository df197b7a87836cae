package inbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

// A worker that is parked here is stopped because its stage is restarted, and another one takes over its member and its
// commands. Both ask for the same slots. The inbox must promise them once: no worker would come for the second promise, and
// the slots would be lost.
func TestAReplacedWorkerIsPromisedItsSlotsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(Config{Name: "r", Capacity: 1, Batch: 1, StreakEnds: time.Minute})
		(&Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1)}).Attach(in)
		in.Phases().Open()
		load := []command.Envelope{{Load: 1}}
		var here, up Member
		here.Wake, up.Wake = func() {}, func() {}
		in.Workers().Join(&here, false)
		require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 0}))
		require.Zero(t, in.Senders().HandOver(&up, load, 0, false, true))
		require.Zero(t, in.Senders().HandOver(&up, load, 0, false, false), "before it stops")
		up.attendance.SetReady(true) // its successor joins
		require.Zero(t, in.Senders().HandOver(&up, load, 0, false, true))
		var tally Tally
		require.Equal(t, 1, in.Turn(&here, &tally, true))
		require.True(t, up.Ready())
		require.Equal(t, 1, in.Senders().HandOver(&up, load, 0, false, true))
		tally.OK = 1
		require.Equal(t, 1, in.Turn(&here, &tally, true))
		tally.OK = 1
		require.Zero(t, in.Turn(&here, &tally, true))
		require.Zero(t, in.state.slots.reserved, "an empty inbox has promised no slots")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, in.Submit(ctx, &command.Envelope{Load: 2}))
	})
}

// A worker that carries commands holds slots for them. When it is stopped, its successor has the commands and the slots are
// free: submitters that wait for them must be let in at once, for nothing else may happen here that would do it.
func TestAWorkerThatLeavesWithCommandsFreesTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(Config{Name: "r", Capacity: 2, Batch: 1, StreakEnds: time.Minute})
		(&Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1)}).Attach(in)
		in.Phases().Open()
		in.Settings().SetSuspends()
		var here Member
		here.Wake = func() {}
		in.Workers().Join(&here, false)
		in.Carry(&here, 2)
		entered := make(chan error, 1)
		go func() { entered <- in.Submit(context.WithoutCancel(t.Context()), &command.Envelope{Load: 0}) }()
		synctest.Wait()
		require.Empty(t, entered, "all slots are taken")
		in.Workers().Leave(&here)
		synctest.Wait()
		require.Len(t, entered, 1)
		require.NoError(t, <-entered)
	})
}

// Workers that are parked here when the inbox stops taking commands all come and have their commands shed.
func TestADisabledInboxLetsAllParkedWorkersHandOver(t *testing.T) {
	in := New(Config{Name: "r", Capacity: 1, Batch: 1, StreakEnds: time.Minute})
	(&Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) {}}).Attach(in)
	in.Phases().Open()
	require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 0}))
	var here Member
	here.Wake = func() {}
	in.Workers().Join(&here, false)
	var up [3]Member
	for i := range up {
		up[i].Wake = func() {}
		require.Zero(t, in.Senders().HandOver(&up[i], []command.Envelope{{Load: i}}, 0, false, true))
	}
	in.Settings().Adjust(func(k *Knobs) { k.Disabled = true })
	require.Equal(t, 1, in.Turn(&here, &Tally{}, true))
	require.Zero(t, in.Turn(&here, &Tally{OK: 1}, true))
	for i := range up {
		require.True(t, up[i].Ready(), "worker %d is woken", i)
		require.Equal(t, 1, in.Senders().HandOver(&up[i], []command.Envelope{{Load: i}}, 0, false, true))
	}
}
