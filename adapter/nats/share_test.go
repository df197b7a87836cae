package nats_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/stage"
)

// A process has as many messages as it may, and another one has none. Each time the first has a free place, a message comes: the two take
// turns. If the first asked for each place by itself, the server would have many requests of it, one of the other, and take turns with
// requests.
func TestAProcessThatHasManyMessagesGetsNoMoreThanTheOthers(t *testing.T) {
	const most, turns = 64, 150
	s := serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	numbers := func() *nats.Inlet[int] {
		conn, err := nats.Connect(t.Context(), s.ClientURL())
		require.NoError(t, err)
		t.Cleanup(func() { shut(t, conn) })
		return inlet(t, conn, "numbers", nats.Options[int]{MaxInFlight: most, Memory: true})
	}
	ends := make(chan struct{})
	var full, free atomic.Int64
	first := numbers()
	newPipeline(t, stage.Sink("sink", func(context.Context, int) error {
		full.Add(1)
		<-ends
		return nil
	}, stage.Workers(most, most)), first.Feed)
	publish := func(n int) {
		require.NoError(t, first.Publish(t.Context(), strconv.Itoa(n), n))
		require.Eventually(t, func() bool { return full.Load()+free.Load() == int64(n+1) }, time.Minute, time.Millisecond)
	}
	for n := range most {
		publish(n)
	}
	newPipeline(t, stage.Sink("sink", func(context.Context, int) error { free.Add(1); return nil }), numbers().Feed)
	for n := range turns {
		ends <- struct{}{}
		time.Sleep(15 * time.Millisecond) // more than it asks seldom for few: it has asked, if it does
		publish(most + n)
	}
	close(ends)
	require.Greater(t, free.Load(), int64(turns/3), "of %d", turns)
}
