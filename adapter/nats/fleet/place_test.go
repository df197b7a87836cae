package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/fleet"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// place starts a process that runs some of the stages of a pipeline.
func place(t *testing.T, url, process string) (f *fleet.Fleet, submit func(context.Context, int) error) {
	t.Helper()
	conn := connect(t, url)
	read := stage.Map("read", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Workers(2, 2))
	index := stage.Sink("index", func(context.Context, int) error { return nil }, stage.Workers(3, 3))
	p, err := pipeline.New("scans", read, index, read.To(index), pipeline.Assign("front", "read"), pipeline.Assign("back", "index"),
		pipeline.RunsHere(nats.NewCarrier(conn, "scans", nats.Options[any]{}), process), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	f, err = fleet.Join(t.Context(), conn, p, named(process))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, p.Stop(context.Background()))
		assert.NoError(t, f.Leave(context.Background()))
	})
	return f, func(ctx context.Context, n int) error { return read.Submit(ctx, n) }
}

func TestTheStagesOfAMapAreShownInTheProcessesThatRunThem(t *testing.T) {
	url := serve(t).ClientURL()
	_, submit := place(t, url, "front")
	f, _ := place(t, url, "back")
	for n := range 20 {
		require.NoError(t, submit(t.Context(), n))
	}
	var s fleet.Snapshot
	require.Eventually(t, func() bool {
		var err error
		s, err = f.Snapshot(t.Context())
		return err == nil && len(s.Processes) == 2 && len(s.Inlets) == 2 && s.Inlets[0].Done() == 20 && s.Inlets[0].Pending == 0 && s.Inlets[1].Stage != ""
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, []string{"index"}, s.Processes[0].Stages)
	require.Equal(t, []string{"read"}, s.Processes[1].Stages)
	for n, want := range []struct {
		inlet, stage string
		workers      int
	}{{"scans_index", "index", 3}, {"scans_read", "read", 2}} {
		i := s.Inlets[n]
		require.Equal(t, want.inlet, i.Name)
		require.Equal(t, [2]string{want.stage, want.stage}, [2]string{i.Stage, i.Bottleneck})
		require.Equal(t, want.workers, i.Workers)
		require.Equal(t, 1, i.Processes, "the other process only sends to it, or has it not at all")
	}
	require.True(t, s.Balanced(), s.Law())
	require.Regexp(t, `(?m)^back .* alive +index 3$`, s.String())
}
