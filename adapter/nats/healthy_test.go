package nats_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestAConnectionIsNotHealthyWhileAnInletFindsNoStream(t *testing.T) {
	conn, err := nats.Embed(t.TempDir(), nats.Store{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	in, err := nats.NewInlet(t.Context(), conn, "orders", nats.Options[int]{})
	require.NoError(t, err)
	s := stage.Sink("s", func(context.Context, int) error { return nil })
	p, err := pipeline.New("shop", s, pipeline.Feed("in", s, in.Feed))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, in.Publish(t.Context(), "1", 1))
	eventually(t, "it is handled", func() bool { return s.Snapshot().Counts.OK == 1 })
	require.NoError(t, conn.Healthy())
	require.NoError(t, conn.JetStream().DeleteStream(t.Context(), "GOLDA_orders"))
	eventually(t, "the inlet waits", func() bool {
		err := conn.Healthy()
		return err != nil && strings.Contains(err.Error(), `inlet "orders"`)
	})
	require.NoError(t, p.Stop(t.Context()))
	require.NoError(t, conn.Healthy())
}
