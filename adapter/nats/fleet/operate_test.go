package fleet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats/fleet"
	"github.com/golda-dev/golda/pipeline"
)

func TestAProcessIsDrainedByAnother(t *testing.T) {
	url := serve(t).ClientURL()
	asked, release := make(chan string, 4), make(chan struct{})
	options := func(name string, drain func(context.Context, string) error) fleet.Options {
		o := named(name)
		o.Drain = drain
		return o
	}
	start(t, connect(t, url), "shop", options("willing", func(ctx context.Context, who string) error {
		asked <- who
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}))
	start(t, connect(t, url), "shop", options("failing", func(context.Context, string) error { return errors.New("not now") }))
	start(t, connect(t, url), "shop", options("crashing", func(context.Context, string) error { panic("on purpose") }))
	start(t, connect(t, url), "shop", named("deaf"))
	for range 2 {
		start(t, connect(t, url), "shop", named("twin"))
	}
	f, err := fleet.Observe(t.Context(), connect(t, url), "shop", beats)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Leave(context.Background())) })
	require.Eventually(t, func() bool {
		s, err := f.Snapshot(t.Context())
		return err == nil && len(s.Processes) == 6
	}, time.Minute, 10*time.Millisecond)

	drained := make(chan error)
	go func() { drained <- f.Drain(t.Context(), "willing", "operator:ann") }()
	require.Equal(t, "operator:ann", <-asked)
	require.ErrorContains(t, f.Drain(t.Context(), "willing", "bob"), "already")
	close(release)
	require.NoError(t, <-drained)
	// On a busy machine a process may look lost for a moment.
	eventually := func(check func(c *assert.CollectT)) {
		t.Helper()
		require.EventuallyWithT(t, check, time.Minute, 10*time.Millisecond)
	}
	eventually(func(c *assert.CollectT) {
		require.NoError(c, f.Drain(t.Context(), "willing", "bob"), "once more, later")
	})

	for name, want := range map[string]string{
		"failing": "not now", "crashing": "panicked: on purpose", "deaf": "set fleet.Options.Drain", "twin": "2 processes have the name", "none": `no process "none"`,
	} {
		eventually(func(c *assert.CollectT) {
			err := f.Drain(t.Context(), name, "ann")
			require.ErrorContains(c, err, want)
			require.ErrorContains(c, err, `fleet "shop": drain process`)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.Drain(ctx, "willing", "ann"), context.Canceled)
}

func TestALookHasThePipelinesOfAllProcesses(t *testing.T) {
	url := serve(t).ClientURL()
	f, in := start(t, connect(t, url), "shop", named("one"))
	require.NoError(t, in.Publish(t.Context(), "a", 1))
	require.Eventually(t, func() bool {
		processes, inlets, err := f.Look(t.Context())
		require.NoError(t, err)
		require.Len(t, processes, 1)
		require.Len(t, inlets, 1)
		s, ok := processes[0].Snapshot.(pipeline.Snapshot)
		return ok && s.Accepted == 1 && inlets[0].Done == 1 && inlets[0].Holds && processes[0].State == "alive"
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, "shop", f.Pipeline())
}
