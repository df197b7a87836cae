package watermill_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/watermill"
	"github.com/golda-dev/golda/internal/feed"
)

func TestAPingThatDoesNotReturnIsSilenceAndHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := gochannel.NewGoChannel(gochannel.Config{}, nil)
		release := make(chan struct{})
		var calls atomic.Int64
		var log strings.Builder
		s := newSource(t, bus, watermill.Options[string]{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Ping: func(context.Context) error {
				calls.Add(1)
				<-release
				return nil
			},
		})
		ctx, cancel := context.WithCancel(feed.With(t.Context(), &feed.Cursor{}))
		done := make(chan error, 1)
		go func() { done <- s.Feed(ctx, func(string) error { return nil }) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1, calls.Load(), "one call at a time")
		require.Contains(t, log.String(), "the function has not returned within 6s")
		release <- struct{}{}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Contains(t, log.String(), "the broker is back")
		require.EqualValues(t, 2, calls.Load())
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		close(release)
		shut(t, s)
		require.NoError(t, bus.Close())
	})
}

func TestAPingThatEndsItsGoroutineIsSilence(t *testing.T) {
	var calls atomic.Int64
	s := newSource(t, bus(t), watermill.Options[string]{Ping: func(context.Context) error {
		if calls.Add(1) == 1 {
			runtime.Goexit()
		}
		return nil
	}})
	ctx, cancel := context.WithCancel(feed.With(t.Context(), &feed.Cursor{}))
	done := make(chan error, 1)
	go func() { done <- s.Feed(ctx, func(string) error { return nil }) }()
	eventually(t, func() bool { return calls.Load() > 1 })
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

// counted counts how often it was closed.
type counted struct {
	subscriber
	closed atomic.Int64
}

func (c *counted) Close() error { c.closed.Add(1); return nil }

func TestADialledSubscriberThatPanicsIsClosed(t *testing.T) {
	c := &counted{subscriber: func(context.Context, string) (<-chan *message.Message, error) { panic("broken") }}
	sub := watermill.Dial(func() (message.Subscriber, error) { return c, nil })
	require.PanicsWithValue(t, "broken", func() { _, _ = sub.Subscribe(t.Context(), "orders") })
	require.EqualValues(t, 1, c.closed.Load())
	require.NoError(t, sub.Close())
}

func TestADialledPublisherIsOpenedWhenItIsNeeded(t *testing.T) {
	out := &drawer{}
	var opened int
	pub := watermill.DialPublisher(func() (message.Publisher, error) {
		switch opened++; opened {
		case 1:
			return nil, errAway
		case 2:
			return nil, nil //nolint:nilnil // on purpose
		case 3:
			panic("broken")
		}
		return out, nil
	})
	ship := watermill.Publish[string](pub, "parcels", nil)
	require.Zero(t, opened)
	require.ErrorIs(t, ship(t.Context(), "a"), errAway)
	require.ErrorContains(t, ship(t.Context(), "a"), "the function has returned no Publisher")
	require.PanicsWithValue(t, "broken", func() { _ = ship(t.Context(), "a") })
	require.NoError(t, ship(t.Context(), "a"))
	require.NoError(t, ship(t.Context(), "b"))
	require.Equal(t, 4, opened)
	require.Equal(t, []string{`"a"`, `"b"`}, payloads(out.list()))
	require.EqualError(t, pub.Close(), "closed 1 times")
	require.NoError(t, pub.Close())
	require.ErrorContains(t, ship(t.Context(), "c"), "the Publisher is closed")
	require.PanicsWithValue(t, "watermill: DialPublisher: the function is nil", func() { watermill.DialPublisher(nil) })

	unused := watermill.DialPublisher(func() (message.Publisher, error) { return nil, errors.New("opened in vain") })
	require.NoError(t, unused.Close())
}

// drawer is a publisher that reports how often it was closed.
type drawer struct {
	letters
	closed int
}

func (d *drawer) Close() error {
	d.closed++
	return fmt.Errorf("closed %d times", d.closed)
}

func TestThoseThatPublishWhileAPublisherIsOpenedShareWhatComesOfIt(t *testing.T) {
	for name, failure := range map[string]error{"a publisher": nil, "an error": errAway} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				release := make(chan struct{})
				out := &drawer{}
				pub := watermill.DialPublisher(func() (message.Publisher, error) {
					calls.Add(1)
					<-release
					return out, failure
				})
				var all sync.WaitGroup
				for _, n := range numbers(20) {
					all.Go(func() { assert.ErrorIs(t, pub.Publish("parcels", message.NewMessage(n, nil)), failure) })
				}
				synctest.Wait()
				all.Go(func() { assert.Equal(t, failure != nil, pub.Close() == nil) })
				synctest.Wait()
				close(release)
				all.Wait()
				require.EqualValues(t, 1, calls.Load())
				require.ErrorContains(t, pub.Publish("parcels"), "closed")
				if failure == nil {
					require.Len(t, out.list(), 20)
				}
			})
		})
	}
}

func TestDeadLettersWaitForAPublisherThatCannotBeOpened(t *testing.T) {
	dead := &letters{}
	var opened atomic.Int64
	pub := watermill.DialPublisher(func() (message.Publisher, error) {
		if opened.Add(1) < 3 {
			return nil, errAway
		}
		return dead, nil
	})
	b := newBroker(1, "a")
	s := newSource(t, b, watermill.Options[string]{
		Dead: pub, Decode: func(*message.Message) (string, error) { return "", errors.New("odd") },
	})
	ctx, cancel := context.WithCancel(feed.With(t.Context(), &feed.Cursor{}))
	done := make(chan error, 1)
	go func() { done <- s.Feed(ctx, func(string) error { return nil }) }()
	eventually(t, func() bool { return s.Counts().DeadLettered == 1 })
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	shut(t, s)
	require.Equal(t, []string{"a"}, payloads(dead.list()))
	require.NoError(t, pub.Close())
}
