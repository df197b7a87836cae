package nats_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/headers/headerstest"
)

// sender is a stage whose commands become messages.
type sender interface {
	Submit(ctx context.Context, n int) error
}

// The propagators are the program's, so the test does not run beside others.
//
//nolint:paralleltest // see above
func TestMessagesCarryHeaders(t *testing.T) {
	for _, by := range []string{"Publish", "Publisher", "Publisher, a command at a time", "Carrier", "call"} {
		t.Run(by, func(t *testing.T) {
			conn := embed(t, t.TempDir(), nats.Store{})
			got := make(chan context.Context, 1)
			sink := func() *stage.Flow[int, struct{}] {
				return stage.Sink("sink", func(ctx context.Context, _ int) error { got <- ctx; return nil })
			}
			var send sender
			switch by {
			case "Carrier":
				send = carried(t, conn, sink)
			case "call":
				send = calling{pair(t, conn, func() *stage.Stage[int] {
					return stage.Func("far", func(ctx context.Context, _ int) behaviour.Outcome { got <- ctx; return behaviour.OK(nil) })
				})}
			default:
				numbers := inlet(t, conn, "numbers", nats.Options[int]{})
				newPipeline(t, sink(), numbers.Feed)
				send = publisher(t, numbers, by)
			}
			headerstest.Run(t, func(t *testing.T, ctx context.Context) context.Context {
				require.NoError(t, send.Submit(ctx, 1))
				return <-got
			})
		})
	}
}

// calling calls a stage when a process answers for it.
type calling struct{ *stage.Stage[int] }

func (c calling) Submit(ctx context.Context, n int) error {
	for {
		if _, err := stage.Call[any](ctx, c.Stage, n); !errors.Is(err, stage.ErrNotRunning) {
			return err
		}
	}
}

// publisher starts a stage that publishes its commands.
func publisher(t *testing.T, to *nats.Inlet[int], by string) sender {
	t.Helper()
	var send *stage.Flow[int, int]
	switch by {
	case "Publish":
		send = stage.Map("send", func(ctx context.Context, n int) (int, error) { return n, to.Publish(ctx, "", n) })
	case "Publisher":
		send = to.Publisher("send", nil)
	default:
		send = to.Publisher("send", nil, stage.Batch(1))
	}
	startParts(t, send)
	return send
}

// carried starts two processes of a pipeline: a stage of one leads to the sink,
// which the other runs.
func carried(t *testing.T, conn *nats.Conn, sink func() *stage.Flow[int, struct{}]) sender {
	t.Helper()
	var front *stage.Flow[int, int]
	for _, process := range []string{"back", "front"} {
		front = stage.Map("front", func(_ context.Context, n int) (int, error) { return n, nil })
		end := sink()
		startParts(t, front.To(end), end, pipeline.Assign("front", "front"), pipeline.Assign("back", "sink"),
			pipeline.RunsHere(nats.NewCarrier(conn, "carried", nats.Options[any]{}), process))
	}
	return front
}

func startParts(t *testing.T, parts ...pipeline.Part) {
	t.Helper()
	p, err := pipeline.New("carried", append(parts, quiet)...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
}
