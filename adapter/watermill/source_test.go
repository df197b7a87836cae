package watermill_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strconv"
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
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
)

// tally counts how often each command was handled, in order.
type tally struct {
	mu    sync.Mutex
	times map[string]int
	order []string
}

func newTally() *tally { return &tally{times: map[string]int{}} }

func (c *tally) add(cmd string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[cmd]++
	c.order = append(c.order, cmd)
	return c.times[cmd]
}

func (c *tally) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}

func (c *tally) handle(context.Context, string) error { return nil }

var quick = stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond, Max: 2 * time.Millisecond}

func TestEachMessageIsHandledAndAcknowledged(t *testing.T) {
	for name, c := range map[string]struct {
		window, subscriptions, most int
	}{
		"by a subscriber that delivers one after the other":       {1, 1, 0},
		"by several subscriptions":                                {1, 4, 0},
		"by a subscriber that delivers many at once":              {50, 1, 0},
		"by one that delivers more at once than may be in flight": {50, 2, 3},
		"by more subscriptions than may be in flight":             {1, 9, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(c.window, numbers(200)...)
			s := newSource(t, b, watermill.Options[string]{Subscriptions: c.subscriptions, MaxInFlight: c.most})
			var now, most atomic.Int64
			got := newTally()
			work := stage.Sink("work", func(_ context.Context, cmd string) error {
				highest(&most, now.Add(1))
				defer now.Add(-1)
				runtime.Gosched()
				got.add(cmd)
				return nil
			}, stage.Workers(8, 8))
			start(t, work, s.Feed)
			eventually(t, func() bool { return s.Counts().Acknowledged == 200 })
			eventually(t, func() bool { return b.total(b.acked) == 200 })
			require.Equal(t, watermill.Counts{Delivered: 200, Acknowledged: 200}, s.Counts())
			if c.most > 0 {
				require.LessOrEqual(t, most.Load(), int64(c.most))
			}
			if c.window*c.subscriptions == 1 {
				require.Equal(t, numbers(200), got.list(), "in order, although there are eight workers")
			}
		})
	}
}

// highest sets the value to n if that is more.
func highest(of *atomic.Int64, n int64) {
	m := of.Load()
	for n > m && !of.CompareAndSwap(m, n) {
		m = of.Load()
	}
}

func TestAMessageIsAcknowledgedWhenAllThatItsCommandEmittedHasEnded(t *testing.T) {
	b := newBroker(1, "a")
	s := newSource(t, b, watermill.Options[string]{})
	release, entered := make(chan struct{}), make(chan struct{})
	last := stage.Sink("last", func(context.Context, string) error { close(entered); <-release; return nil })
	first := stage.Map("first", func(_ context.Context, cmd string) (string, error) { return cmd, nil })
	start(t, first, s.Feed, first.To(last), last)
	<-entered
	require.Equal(t, watermill.Counts{Delivered: 1, InFlight: 1}, s.Counts())
	require.Zero(t, b.total(b.acked))
	close(release)
	eventually(t, func() bool { return b.total(b.acked) == 1 })
}

func TestWhatBecomesOfAMessage(t *testing.T) {
	no := errors.New("no such account")
	for name, c := range map[string]struct {
		handle func(n int) error // what the handler does at the n-th time
		decode func(*message.Message) (string, error)
		errs   []error // of the publisher of dead letters
		tries  int
		reason reason.Reason // of its letter; empty if it is acknowledged without one
		text   string
	}{
		"it fails once and succeeds":              {handle: func(n int) error { return failUntil(n, 2, no) }, tries: 2},
		"it fails as often as it may":             {handle: func(int) error { return no }, tries: 3, reason: reason.Error, text: no.Error()},
		"it fails, and letters fail at first":     {handle: func(int) error { return no }, errs: []error{errAway, nil}, tries: 3, reason: reason.Error, text: no.Error()},
		"it crashes":                              {handle: func(int) error { panic("broken") }, tries: 1, reason: reason.Crash, text: "broken"},
		"it ends its goroutine":                   {handle: func(int) error { runtime.Goexit(); return nil }, tries: 1, reason: reason.Crash},
		"it cannot be decoded":                    {decode: func(*message.Message) (string, error) { return "", no }, reason: watermill.Undecodable, text: no.Error()},
		"the function that decodes it panics":     {decode: func(*message.Message) (string, error) { panic("odd") }, reason: watermill.Undecodable, text: "odd"},
		"the function that decodes it never ends": {decode: func(*message.Message) (string, error) { runtime.Goexit(); return "", nil }, reason: watermill.Undecodable, text: "goroutine"},
	} {
		t.Run(name, func(t *testing.T) {
			b, dead := newBroker(1, "a"), &letters{errs: c.errs}
			s := newSource(t, b, watermill.Options[string]{Decode: c.decode, Dead: dead, Retry: quick})
			got := newTally()
			start(t, stage.Sink("work", func(_ context.Context, cmd string) error { return c.handle(got.add(cmd)) }), s.Feed)
			eventually(t, func() bool { return b.total(b.acked) == 1 })
			shut(t, s)
			require.Len(t, got.list(), c.tries)
			n := s.Counts()
			if c.reason == "" {
				require.Equal(t, watermill.Counts{Delivered: 2, Acknowledged: 1, GivenBack: 1}, n)
				require.Empty(t, dead.list())
				return
			}
			require.Equal(t, uint64(1), n.DeadLettered)
			require.Zero(t, n.Acknowledged)
			require.Len(t, dead.list(), 1)
			letter := dead.list()[0]
			assert.Equal(t, "id a", letter.UUID)
			assert.Equal(t, "a", string(letter.Payload))
			assert.Equal(t, "orders.dead", letter.Metadata.Get("topic"))
			assert.Equal(t, "orders", letter.Metadata.Get("topic_poisoned"))
			assert.Equal(t, string(c.reason), letter.Metadata.Get("golda_reason"))
			assert.Contains(t, letter.Metadata.Get("reason_poisoned"), c.text)
		})
	}
}

// A stage that is full or late does not lose a message: it is delivered again, or becomes a letter.
func TestAMessageWhoseCommandWasNotHandledIsNotLost(t *testing.T) {
	patient := stage.RetryPolicy{Attempts: 1_000_000, Backoff: time.Millisecond, Max: 5 * time.Millisecond}
	for name, c := range map[string]struct {
		first, last []stage.Option
		again, dead bool // some are delivered again; all become dead letters
	}{
		"the stage that is fed refuses":             {first: []stage.Option{stage.Capacity(1), stage.Overflow(overflow.Reject)}},
		"the stage that is fed drops the oldest":    {first: []stage.Option{stage.Capacity(1), stage.Overflow(overflow.DropOldest)}, again: true},
		"the stage behind it refuses":               {last: []stage.Option{stage.Capacity(1), stage.Overflow(overflow.Reject)}, again: true},
		"the stage behind it drops the oldest":      {last: []stage.Option{stage.Capacity(1), stage.Overflow(overflow.DropOldest)}, again: true},
		"the command has no time in the first one":  {first: []stage.Option{stage.TTL(1)}, dead: true},
		"the command has no time in the second one": {last: []stage.Option{stage.TTL(1)}, dead: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a stage that is full asks for pauses of a second
			b, dead := newBroker(6, numbers(8)...), &letters{}
			s := newSource(t, b, watermill.Options[string]{Dead: dead, Retry: patient})
			got := newTally()
			hold := func(here bool) { // until one was delivered again
				for here && c.again && s.Counts().GivenBack == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			last := stage.Sink("last", func(_ context.Context, cmd string) error {
				hold(c.last != nil)
				got.add(cmd)
				return nil
			}, append(c.last, stage.Workers(1, 1))...)
			first := stage.Map("first", func(_ context.Context, cmd string) (string, error) {
				hold(c.first != nil)
				return cmd, nil
			}, append(c.first, stage.Workers(1, 1))...)
			start(t, first, s.Feed, first.To(last), last)
			eventually(t, func() bool { n := s.Counts(); return n.Acknowledged+n.DeadLettered == 8 })
			shut(t, s)
			if c.dead {
				require.Len(t, dead.list(), 8)
				require.Equal(t, string(reason.Expired), dead.list()[0].Metadata.Get("golda_reason"))
				require.Empty(t, got.list())
				return
			}
			require.Empty(t, dead.list())
			require.ElementsMatch(t, numbers(8), got.list())
			require.Equal(t, c.again, s.Counts().GivenBack > 0)
		})
	}
}

func failUntil(n, good int, err error) error {
	if n < good {
		return err
	}
	return nil
}

// asks is the error of a service that refuses commands.
type asks time.Duration

func (asks) Error() string { return "too much to do" }
func (a asks) Overload() (stage.Overload, bool) {
	return stage.Overload{Reason: "service", RetryAfter: time.Duration(a)}, true
}

// The service asks for 68 years; the source makes the longest pause of its policy, and the refusals use up no attempt.
func TestAMessageWhoseCommandIsRefusedIsDeliveredUntilItIsNot(t *testing.T) {
	b, dead := newBroker(1, "a"), &letters{}
	policy := quick
	policy.Attempts, policy.Max = 2, policy.Backoff
	s := newSource(t, b, watermill.Options[string]{Retry: policy, Dead: dead})
	got := newTally()
	start(t, stage.Sink("work", func(_ context.Context, cmd string) error {
		if got.add(cmd) < 6 {
			return asks(68 * 365 * 24 * time.Hour)
		}
		return nil
	}), s.Feed)
	eventually(t, func() bool { return b.total(b.acked) == 1 })
	shut(t, s)
	require.Len(t, got.list(), 6)
	require.Empty(t, dead.list())
}

func TestWithoutDeadLettersAMessageIsDeliveredUntilItsCommandSucceeds(t *testing.T) {
	b := newBroker(1, "a")
	s := newSource(t, b, watermill.Options[string]{Retry: quick})
	got := newTally()
	work := stage.Sink("work", func(_ context.Context, cmd string) error {
		return failUntil(got.add(cmd), 20, errAway)
	})
	start(t, work, s.Feed)
	eventually(t, func() bool { return b.total(b.acked) == 1 })
	require.Len(t, got.list(), 20)
}

func TestABrokerThatIsAway(t *testing.T) {
	b := newBroker(1, numbers(50)...)
	b.fail(errAway)
	var log strings.Builder
	s := newSource(t, b, watermill.Options[string]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	got := newTally()
	p := start(t, stage.Sink("work", func(_ context.Context, cmd string) error { got.add(cmd); return nil }), s.Feed)
	state := func() string { return p.Snapshot().Feeds[0].State }
	eventually(t, func() bool { return state() == "away" })
	require.ErrorContains(t, p.Snapshot().Feeds[0].Err, "connection refused")
	b.fail(nil)
	eventually(t, func() bool { return len(got.list()) >= 10 && state() == "running" })
	b.fail(errAway)
	eventually(t, func() bool { return state() == "away" })
	b.fail(nil)
	eventually(t, func() bool { return b.total(b.acked) >= 50 && state() == "running" })
	require.Zero(t, p.Snapshot().Feeds[0].Restarts)
	require.NoError(t, p.Stop(context.Background()))
	shut(t, s)
	for _, k := range numbers(50) {
		assert.NotZero(t, got.times[k], k)
	}
	require.Contains(t, log.String(), "the broker is away")
	require.Contains(t, log.String(), "the broker is back")
}

func TestASubscriberThatSaysNothingIsPinged(t *testing.T) {
	var away atomic.Pointer[error]
	away.Store(&errAway)
	s := newSource(t, bus(t), watermill.Options[string]{Ping: func(context.Context) error {
		if err := away.Load(); err != nil {
			return *err
		}
		return nil
	}})
	p := start(t, stage.Sink("work", newTally().handle), s.Feed)
	eventually(t, func() bool { return p.Snapshot().Feeds[0].State == "away" })
	away.Store(nil)
	eventually(t, func() bool { return p.Snapshot().Feeds[0].State == "running" })
}

func TestADrainSettlesWhatIsInFlight(t *testing.T) {
	for name, blank := range map[string]bool{
		"of a subscriber whose messages say when they are done": false,
		"of one whose messages do not":                          true,
	} {
		t.Run(name, func(t *testing.T) {
			b, dead := newBroker(100, numbers(300)...), &letters{}
			b.blank = blank
			s := newSource(t, b, watermill.Options[string]{MaxInFlight: 100, Dead: dead, Retry: stage.RetryPolicy{Backoff: time.Hour, Max: time.Hour}})
			release := make(chan struct{})
			var entered atomic.Int64
			work := stage.Sink("work", func(_ context.Context, cmd string) error {
				entered.Add(1)
				<-release
				switch n, _ := strconv.Atoi(cmd); {
				case n%10 == 1:
					return errors.New("later") // nacked after an hour, unless the subscription ends before
				case n%10 == 2:
					panic("never")
				}
				return nil
			}, stage.Workers(100, 100))
			p := start(t, work, s.Feed)
			eventually(t, func() bool { return entered.Load() == 100 && s.Counts().InFlight == 100 })
			stopped := make(chan error, 1)
			go func() { stopped <- p.Stop(context.Background()) }()
			eventually(t, func() bool { return p.Snapshot().Feeds[0].State == "stopped" })
			close(release)
			require.NoError(t, <-stopped)
			shut(t, s)
			n := s.Counts()
			require.Equal(t, uint64(10), n.DeadLettered)
			require.Len(t, dead.list(), 10)
			require.Equal(t, uint64(80), n.Acknowledged)
			eventually(t, func() bool { return b.total(b.acked) == 90 })
			require.Len(t, b.queue, 210, "the rest is in the broker")
		})
	}
}

func TestASubscriptionEndsWhenItsAcknowledgementsWerePassedOn(t *testing.T) {
	for name, blank := range map[string]bool{"which the messages say": false, "or after a while": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(5, numbers(5)...)
				b.blank, b.slow = blank, 200*time.Millisecond
				s := newSource(t, b, watermill.Options[string]{})
				var cursor feed.Cursor
				ctx, cancel := context.WithCancel(feed.With(t.Context(), &cursor))
				ends := make(chan feed.End, 5)
				done := make(chan error, 1)
				go func() {
					done <- s.Feed(ctx, func(string) error {
						return cursor.Submit(ctx, func(as feed.Terms) error { ends <- as.End; return nil })
					})
				}()
				synctest.Wait()
				cancel()
				require.ErrorIs(t, <-done, context.Canceled)
				for range 5 {
					(<-ends)(nil, true)
				}
				shut(t, s)
				synctest.Wait()
				require.Equal(t, 5, b.total(b.acked))
			})
		})
	}
}

func TestAHardStopGivesMessagesBackAndTheNextSourceHandlesThem(t *testing.T) {
	b := newBroker(10, numbers(10)...)
	s := newSource(t, b, watermill.Options[string]{})
	var entered atomic.Int64
	work := stage.Sink("work", func(ctx context.Context, _ string) error {
		entered.Add(1)
		<-ctx.Done()
		return context.Cause(ctx)
	}, stage.Workers(10, 10))
	p := start(t, work, s.Feed)
	eventually(t, func() bool { return entered.Load() == 10 })
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Stop(ended)
	shut(t, s)
	require.Equal(t, s.Counts().Delivered, s.Counts().GivenBack)

	got := newTally()
	again := newSource(t, b, watermill.Options[string]{})
	start(t, stage.Sink("work", func(_ context.Context, cmd string) error { got.add(cmd); return nil }), again.Feed)
	eventually(t, func() bool { return b.total(b.acked) == 10 })
	require.ElementsMatch(t, numbers(10), got.list())
}

func TestASourceThatIsClosedIsExhausted(t *testing.T) {
	b := newBroker(1, "a")
	s := newSource(t, b, watermill.Options[string]{})
	p := start(t, stage.Sink("work", newTally().handle), s.Feed)
	eventually(t, func() bool { return s.Counts().Acknowledged == 1 })
	shut(t, s)
	eventually(t, func() bool { return p.Snapshot().Feeds[0].State == "exhausted" })
	require.NoError(t, s.Feed(feed.With(t.Context(), &feed.Cursor{}), func(string) error { t.Error("a command"); return nil }))
}

func TestCloseReportsWhatItCouldNotWaitFor(t *testing.T) {
	b := newBroker(1, "a")
	s := newSource(t, b, watermill.Options[string]{})
	release, entered := make(chan struct{}), make(chan struct{}, 1)
	p := start(t, stage.Sink("work", func(context.Context, string) error { entered <- struct{}{}; <-release; return nil }), s.Feed)
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := s.Close(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, `source "orders": 1 messages were in flight`)
	require.Equal(t, watermill.Counts{Delivered: s.Counts().Delivered, GivenBack: s.Counts().Delivered}, s.Counts())
	close(release) // its end comes too late, and changes nothing
	require.NoError(t, p.Stop(context.Background()))
	require.Zero(t, s.Counts().Acknowledged)
	require.Equal(t, []string{"a"}, b.queue)
}

func TestASubscriptionThatComesTooLateIsEnded(t *testing.T) {
	release, came := make(chan struct{}), make(chan struct{})
	b := newBroker(1, "a")
	s := newSource(t, subscriber(func(ctx context.Context, topic string) (<-chan *message.Message, error) {
		close(came)
		<-release
		return b.Subscribe(context.WithoutCancel(ctx), topic) // it ignores its context
	}), watermill.Options[string]{})
	p := start(t, stage.Sink("work", newTally().handle), s.Feed)
	<-came
	require.NoError(t, p.Stop(context.Background()))
	close(release)
	eventually(t, func() bool { return b.total(b.nacked) > 0 })
	b.fail(errAway) // the broker ends it
	shut(t, s)
}

// subscriber is a function that is a subscriber.
type subscriber func(ctx context.Context, topic string) (<-chan *message.Message, error)

func (f subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	return f(ctx, topic)
}
func (f subscriber) Close() error { return nil }

func TestASubscriberThatIsBrokenIsAway(t *testing.T) {
	for name, f := range map[string]subscriber{
		"it panics":             func(context.Context, string) (<-chan *message.Message, error) { panic("broken") },
		"it ends its goroutine": func(context.Context, string) (<-chan *message.Message, error) { runtime.Goexit(); return nil, nil }, //nolint:nilnil // on purpose
		"it returns no channel": func(context.Context, string) (<-chan *message.Message, error) { return nil, nil },                   //nolint:nilnil // on purpose
		"its channel is closed": func(context.Context, string) (<-chan *message.Message, error) {
			c := make(chan *message.Message)
			close(c)
			return c, nil
		},
		"its messages are nil": func(context.Context, string) (<-chan *message.Message, error) {
			c := make(chan *message.Message, 1)
			c <- nil
			close(c)
			return c, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t, f, watermill.Options[string]{})
			p := start(t, stage.Sink("work", newTally().handle), s.Feed)
			eventually(t, func() bool { return p.Snapshot().Feeds[0].State == "away" })
			require.NoError(t, p.Stop(context.Background()))
			require.Zero(t, s.Counts())
		})
	}
}

func TestASourceFeedsOneStage(t *testing.T) {
	s := newSource(t, newBroker(1, "a"), watermill.Options[string]{})
	start(t, stage.Sink("work", newTally().handle), s.Feed)
	eventually(t, func() bool { return s.Counts().Acknowledged == 1 })
	err := s.Feed(feed.With(t.Context(), &feed.Cursor{}), func(string) error { return nil })
	require.ErrorIs(t, err, watermill.ErrFed)
}

func TestAFailedFeedIsRunAgainAndSubscribesAgain(t *testing.T) {
	g := bus(t)
	s := newSource(t, g, watermill.Options[string]{})
	var cursor feed.Cursor
	ctx := feed.With(t.Context(), &cursor)
	refused := errors.New("refused")
	done := make(chan error, 1)
	go func() { done <- s.Feed(ctx, func(string) error { return refused }) }()
	eventually(t, func() bool {
		require.NoError(t, g.Publish("orders", message.NewMessage("1", []byte("a"))))
		return len(done) > 0
	})
	require.ErrorIs(t, <-done, refused)
	go func() { done <- s.Feed(ctx, func(string) error { return refused }) }()
	eventually(t, func() bool {
		require.NoError(t, g.Publish("orders", message.NewMessage("1", []byte("a"))))
		return len(done) > 0
	})
	require.ErrorIs(t, <-done, refused)
	shut(t, s)
	require.Equal(t, s.Counts().Delivered, s.Counts().GivenBack)
}

func TestFaultsOfASourceAreInOneError(t *testing.T) {
	_, err := watermill.NewSource(nil, "", watermill.Options[string]{
		Subscriptions: -1, MaxInFlight: -1, DeadTopic: "x",
		Retry: stage.RetryPolicy{Attempts: -1, Backoff: -1, Max: -1, Jitter: math.NaN(), Budget: 1},
	})
	for _, fault := range []string{
		"the Subscriber is nil", "the topic is empty", "Subscriptions is -1", "MaxInFlight is -1", "DeadTopic is", "Retry.Attempts is -1",
		"Retry.Backoff", "Retry.Max", "Retry.Jitter", "Retry.Budget",
	} {
		assert.ErrorContains(t, err, fault)
	}
	_, err = watermill.NewSource(bus(t), "orders", watermill.Options[string]{Dead: &letters{}, DeadTopic: "orders"})
	assert.ErrorContains(t, err, `source "orders": DeadTopic is the topic itself`)
	assert.PanicsWithValue(t, "watermill: Dial: the function is nil", func() { watermill.Dial(nil) })
	assert.PanicsWithValue(t, "watermill: Publish: the Publisher is nil", func() { watermill.Publish[int](nil, "t", nil) })
	assert.PanicsWithValue(t, "watermill: PublishBatch: the topic is empty", func() { watermill.PublishBatch[int](&letters{}, "", nil) })
}

func TestADialledSubscriberIsMadeForEachSubscriptionAndClosedAfterIt(t *testing.T) {
	var opened atomic.Int64
	var last atomic.Pointer[gochannel.GoChannel]
	sub := watermill.Dial(func() (message.Subscriber, error) {
		switch opened.Add(1) {
		case 1:
			return nil, errAway
		case 2:
			return nil, nil //nolint:nilnil // on purpose
		}
		g := gochannel.NewGoChannel(gochannel.Config{}, nil)
		last.Store(g)
		return g, nil
	})
	s := newSource(t, sub, watermill.Options[string]{})
	got := newTally()
	p := start(t, stage.Sink("work", func(_ context.Context, cmd string) error { got.add(cmd); return nil }), s.Feed)
	eventually(t, func() bool { return last.Load() != nil })
	eventually(t, func() bool {
		require.NoError(t, last.Load().Publish("orders", message.NewMessage("1", []byte("a"))))
		return len(got.list()) > 0
	})
	first := last.Load()
	require.NoError(t, first.Close())
	eventually(t, func() bool { return last.Load() != first })
	require.NoError(t, p.Stop(context.Background()))
	shut(t, s)
	require.NoError(t, sub.Close())
	require.Error(t, last.Load().Publish("orders"), "it is closed")
	require.NoError(t, sub.Close())
	_, err := sub.Subscribe(t.Context(), "orders")
	require.ErrorContains(t, err, "closed")
}

func TestCommandsArePublished(t *testing.T) {
	out := &letters{errs: []error{errAway, errAway}}
	s := newSource(t, newBroker(1, numbers(3)...), watermill.Options[string]{})
	ship := stage.Sink("ship", watermill.Publish[string](out, "parcels", nil), stage.Retry(stage.RetryPolicy{
		Attempts: 5, Backoff: time.Millisecond, If: func(err error) bool { _, ok := stage.Overloaded(err); return ok },
	}))
	start(t, ship, s.Feed)
	eventually(t, func() bool { return s.Counts().Acknowledged == 3 })
	require.Equal(t, []string{`"0"`, `"1"`, `"2"`}, payloads(out.list()))
	require.NotEmpty(t, out.list()[0].UUID)
	require.Equal(t, "parcels", out.list()[0].Metadata.Get("topic"))
}

func TestErrorsOfPublishing(t *testing.T) {
	no := errors.New("no")
	encode := func(cmd int) (*message.Message, error) {
		switch cmd {
		case 0:
			return nil, no
		case 1:
			return nil, nil //nolint:nilnil // on purpose
		}
		return message.NewMessage("1", nil), nil
	}
	f := watermill.Publish(&letters{errs: []error{errAway, errAway}}, "parcels", encode)
	for cmd, c := range []struct {
		ctx  context.Context
		is   error
		text string
		over bool
	}{
		{t.Context(), no, `watermill: topic "parcels": encode: no`, false},
		{t.Context(), nil, `topic "parcels": encode: the function has returned no message`, false},
		{t.Context(), errAway, `topic "parcels": publish: connection refused`, true},
		{ended(), errAway, `topic "parcels": publish: connection refused`, false},
	} {
		err := f(c.ctx, cmd)
		assert.ErrorContains(t, err, c.text)
		if c.is != nil {
			assert.ErrorIs(t, err, c.is)
		}
		o, over := stage.Overloaded(err)
		assert.Equal(t, c.over, over)
		if over {
			assert.Equal(t, stage.Overload{Reason: watermill.BrokerAway, RetryAfter: time.Second, Tried: true}, o)
		}
	}
	assert.NoError(t, f(t.Context(), 2))
	assert.Error(t, watermill.Publish[func()](&letters{}, "parcels", nil)(t.Context(), nil), "not JSON")
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestABatchIsPublishedWithOneCall(t *testing.T) {
	out := &letters{}
	b := watermill.PublishBatch(out, "parcels", func(cmd int) (*message.Message, error) {
		if cmd < 0 {
			return nil, errors.New("negative")
		}
		return message.NewMessage(strconv.Itoa(cmd), []byte(strconv.Itoa(cmd))), nil
	})
	outcomes := b.(behaviour.Batcher[int]).HandleBatch(t.Context(), []int{1, -2, 3})
	require.Equal(t, behaviour.OK(nil), outcomes[0])
	require.NotEqual(t, behaviour.OK(nil), outcomes[1])
	require.Equal(t, behaviour.OK(nil), outcomes[2])
	require.Equal(t, []string{"1", "3"}, payloads(out.list()))
	out.errs = []error{errAway}
	for _, o := range b.(behaviour.Batcher[int]).HandleBatch(t.Context(), []int{4, 5}) {
		require.NotEqual(t, behaviour.OK(nil), o)
	}
	require.Len(t, b.(behaviour.Batcher[int]).HandleBatch(t.Context(), []int{-1}), 1)
	require.Equal(t, behaviour.OK(nil), b.HandleCommand(t.Context(), 6))
	require.Len(t, out.list(), 3)
}

func TestASubscriberThatIsANilPointerIsRefused(t *testing.T) {
	_, err := watermill.NewSource((*gochannel.GoChannel)(nil), "orders", watermill.Options[int]{})
	require.ErrorContains(t, err, "the Subscriber is nil")
}
