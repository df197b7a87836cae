package watermill_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/watermill"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/headers/headerstest"
)

func TestTheMetadataOfMessagesCarryHeaders(t *testing.T) {
	for _, batch := range []bool{false, true} {
		bus := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, nil)
		got := make(chan context.Context, 1)
		sink := stage.Sink("sink", func(ctx context.Context, _ int) error { got <- ctx; return nil })
		var send interface {
			pipeline.Part
			Submit(ctx context.Context, n int) error
		} = stage.Sink("send", watermill.Publish[int](bus, "numbers", nil))
		if batch {
			send = stage.New("send", watermill.PublishBatch[int](bus, "numbers", nil), stage.Batch(8))
		}
		numbers, err := watermill.NewSource(bus, "numbers", watermill.Options[int]{})
		require.NoError(t, err)
		p, err := pipeline.New("p", sink, send, pipeline.Feed("numbers", sink, numbers.Feed))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		headerstest.Run(t, func(t *testing.T, ctx context.Context) context.Context {
			require.NoError(t, send.Submit(ctx, 1))
			return <-got
		})
		require.NoError(t, p.Stop(context.Background()))
	}
}
