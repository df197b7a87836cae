package nats_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// reboot returns the URL of a server, and a function that starts it again, at the same port and with the same directory.
func reboot(t *testing.T) (url string, again func()) {
	t.Helper()
	dir := t.TempDir()
	s := launch(t, &server.Options{StoreDir: dir})
	t.Cleanup(func() { halt(s) })
	port := s.Addr().(*net.TCPAddr).Port
	return s.ClientURL(), func() {
		halt(s)
		s = launch(t, &server.Options{StoreDir: dir, Port: port})
	}
}

// The server is started again while the streams are empty, and while commands are sent.
func TestStreamsInMemoryAreMadeAnewWhenTheServerHasLostThem(t *testing.T) {
	t.Parallel()
	for name, keyed := range map[string]bool{"a stage": false, "a keyed stage": true} {
		t.Run(name, func(t *testing.T) {
			url, again := reboot(t)
			done := &pages{}
			start := func(process string) *stage.Flow[scan, scan] {
				load := stage.Map("load", func(_ context.Context, s scan) (scan, error) { return s, nil })
				index := stage.New("index", indexed(done))
				if keyed {
					index = stage.Keyed("index", func(s scan) int { return s.ID % 10 }, func(int) behaviour.Behaviour[scan] { return indexed(done) })
				}
				p, err := pipeline.New("archive", quiet, load.To(index), pipeline.Assign("front", "load"), pipeline.Assign("back", "index"),
					pipeline.RunsHere(nats.NewCarrier(connect(t, url), "archive", nats.Options[any]{Memory: true, Partitions: 4}), process))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				t.Cleanup(func() {
					assert.NoError(t, p.Stop(context.Background()))
					assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
				})
				return load
			}
			load := start("front")
			start("back")
			submit := func(from, to int) {
				for i := from; i < to; i++ {
					assert.NoError(t, load.Submit(context.Background(), scan{ID: i}))
				}
			}
			submit(0, 100)
			require.Eventually(t, func() bool { return done.full(100) }, time.Minute, time.Millisecond)
			again()
			submit(100, 200)
			require.Eventually(t, func() bool { return done.full(200) }, time.Minute, time.Millisecond)
		})
	}
}

func TestAPublisherMakesStreamsInMemoryAnew(t *testing.T) {
	url, again := reboot(t)
	numbers := inlet(t, connect(t, url), "numbers", nats.Options[int]{Memory: true})
	require.NoError(t, numbers.Publish(t.Context(), "1", 1))
	again()
	await(t, "the connection is back", func() bool {
		err := numbers.Publish(t.Context(), "2", 2)
		if err != nil {
			require.ErrorIs(t, err, nats.ErrAway)
		}
		return err == nil
	})
	s, err := numbers.Status(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Pending)
}

// The first message of the new stream has the number of the message in flight. That one fails, and the new one must be handled all the same.
func TestWhatIsInFlightWhenTheServerLosesItsStreamIsNotTakenForANewMessage(t *testing.T) {
	for name, fails := range map[string]error{"it ends well": nil, "it fails": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			url, again := reboot(t)
			numbers := inlet(t, connect(t, url), "numbers", nats.Options[int]{Memory: true})
			begun, end, second := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
			p := newPipeline(t, stage.Sink("sink", func(_ context.Context, n int) error {
				if n == 2 {
					second <- struct{}{}
					return nil
				}
				close(begun)
				<-end
				return fails
			}), numbers.Feed)
			require.NoError(t, numbers.Publish(t.Context(), "", 1))
			<-begun
			again()
			await(t, "the second is published", func() bool { return numbers.Publish(t.Context(), "2", 2) == nil })
			<-second
			close(end)
			letters := 0
			if fails != nil {
				letters = 1
			}
			eventualStatus(t, numbers, func(s nats.Status) bool { return s.Pending == 0 && s.DeadLettered == uint64(letters) })
			for l, err := range numbers.Letters(t.Context()) {
				require.NoError(t, err)
				require.Equal(t, "1", string(l.Data))
				require.Contains(t, l.Err, "the stream that had it is gone: ")
			}
			require.NoError(t, p.Stop(context.Background()))
			eventually(t, "nothing is in flight", func() bool { return numbers.Counts().InFlight == 0 })
			c := numbers.Counts()
			require.Equal(t, c.Delivered, c.Acknowledged+c.GivenBack+c.DeadLettered+c.Repeated)
		})
	}
}

// indexed returns a behaviour that indexes scans.
func indexed(done *pages) behaviour.Behaviour[scan] {
	return behaviour.Func[scan](func(_ context.Context, s scan) behaviour.Outcome { done.put(s.ID); return behaviour.OK(nil) })
}
