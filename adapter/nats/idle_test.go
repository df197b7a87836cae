package nats_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A program that makes, runs and stops pipelines, one after the other, on one connection.
func TestAStoppedPipelineLeavesNoGoroutineBehind(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	one := func(n int) {
		done := &pages{}
		var last *stage.Flow[scan, scan]
		for _, process := range []string{"back", "front"} {
			load := stage.Map("load", func(_ context.Context, s scan) (scan, error) { return s, nil })
			p, err := pipeline.New("archive", quiet, load.To(stage.New("index", indexed(done))), pipeline.Assign("front", "load"),
				pipeline.Assign("back", "index"), pipeline.RunsHere(nats.NewCarrier(conn, "archive", nats.Options[any]{}), process))
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			defer func() { require.NoError(t, p.Stop(context.Background())) }()
			last = load
		}
		require.NoError(t, last.Submit(t.Context(), scan{ID: n}))
		require.Eventually(t, func() bool { return done.full(1) }, time.Minute, time.Millisecond)
	}
	one(0)
	settled := func() (n int) { // the least number of a second, in which what has ended returns
		n = runtime.NumGoroutine()
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			n = min(n, runtime.NumGoroutine())
		}
		return n
	}
	before := settled()
	for n := range 10 {
		one(n)
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+5 }, time.Minute, 10*time.Millisecond)
}

// Commands are in flight when the source returns.
func TestAnInletOfAStoppedPipelineHasNoGoroutines(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	const n = 10
	var numbers [n]*nats.Inlet[int]
	for k := range numbers {
		numbers[k] = inlet(t, conn, "numbers"+strconv.Itoa(k), nats.Options[int]{})
		publish(t, numbers[k], 10)
	}
	trackers := func() int {
		stacks := make([]byte, 4<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*tracker).run(")
	}
	for _, inlet := range numbers {
		began, open := make(chan struct{}, 10), make(chan struct{})
		p := start(t, inlet, stage.Sink("work", func(context.Context, int) error {
			began <- struct{}{}
			<-open
			return nil
		}))
		<-began
		time.AfterFunc(10*time.Millisecond, func() { close(open) }) // Stop waits for the handlers
		require.NoError(t, p.Stop(t.Context()))
	}
	eventually(t, "no goroutine is left", func() bool { return trackers() == 0 })
	for _, inlet := range numbers {
		require.Zero(t, inlet.Counts().InFlight)
	}
}

// A source that returns while a command is in flight: the message is acknowledged all the same, and the inlet feeds again.
func TestAnInletFeedsAgainAfterAStop(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	for n := range 20 {
		require.NoError(t, numbers.Publish(t.Context(), "", n))
		got := make(chan int, 1)
		p := newPipeline(t, stage.Sink("sink", func(_ context.Context, n int) error { got <- n; return nil }), numbers.Feed)
		require.Equal(t, n, <-got)
		require.NoError(t, p.Stop(context.Background()))
		require.Eventually(t, func() bool { return numbers.Counts().Acknowledged == uint64(n+1) }, time.Minute, time.Millisecond)
	}
}
