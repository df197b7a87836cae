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
		in.Attach(&Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1)})
		in.Open()
		load := []command.Envelope{{Load: 1}}
		var here, up Member
		here.Wake, up.Wake = func() {}, func() {}
		in.Join(&here, false)
		require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 0}))
		require.Zero(t, in.HandOver(&up, load, 0, false, true))
		require.Zero(t, in.HandOver(&up, load, 0, false, false), "before it stops")
		up.ready.Store(true) // its successor joins
		require.Zero(t, in.HandOver(&up, load, 0, false, true))
		var tally Tally
		require.Equal(t, 1, in.Turn(&here, &tally, true))
		require.True(t, up.Ready())
		require.Equal(t, 1, in.HandOver(&up, load, 0, false, true))
		tally.OK = 1
		require.Equal(t, 1, in.Turn(&here, &tally, true))
		tally.OK = 1
		require.Zero(t, in.Turn(&here, &tally, true))
		require.Zero(t, in.reserved, "an empty inbox has promised no slots")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, in.Submit(ctx, &command.Envelope{Load: 2}))
	})
}
