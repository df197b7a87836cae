package nats_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A server that is silent, or slow, does not answer when a feed says that it ends.
func TestAFeedStopsWithinTheGraceWhileTheServerIsSilent(t *testing.T) {
	grace := pipeline.Grace(200 * time.Millisecond)
	do := func() *stage.Flow[int, struct{}] {
		return stage.Sink("far", func(context.Context, int) error { return nil })
	}
	for name, silence := range map[string]struct {
		from string // the command with which the silence begins
		feed func(t *testing.T, conn *nats.Conn, stall func() <-chan struct{}) *pipeline.Pipeline
	}{
		"an inlet that waits for messages": {"", func(t *testing.T, conn *nats.Conn, stall func() <-chan struct{}) *pipeline.Pipeline {
			t.Helper()
			numbers := inlet(t, conn, "numbers", nats.Options[int]{})
			publish(t, numbers, 1)
			p := start(t, numbers, do(), grace)
			eventually(t, "it is acknowledged", func() bool { return numbers.Counts().Acknowledged == 1 })
			stall()
			return p
		}},
		"a stage that others call": {"SUB golda.calls.", func(t *testing.T, conn *nats.Conn, stall func() <-chan struct{}) *pipeline.Pipeline {
			t.Helper()
			near, far := stage.Sink("near", func(context.Context, int) error { return nil }), do()
			p, err := pipeline.New("pair", near, far, quiet, grace, pipeline.Assign("a", "near"), pipeline.Assign("b", "far"),
				pipeline.RunsHere(nats.NewCarrier(conn, "pair", nats.Options[any]{}), "b"))
			require.NoError(t, err)
			stalled := stall()
			require.NoError(t, p.Start(t.Context()))
			<-stalled
			return p
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &server.Options{})
			link := newProxy(t, s.Addr().(*net.TCPAddr).String())
			conn := connect(t, "nats://"+link.address())
			resume := func() {}
			p := silence.feed(t, conn, func() (stalled <-chan struct{}) {
				stalled, resume = link.stall(silence.from)
				return stalled
			})
			defer func() { resume() }()
			require.NoError(t, p.Stop(t.Context()))
		})
	}
}
