//go:build unix

package brokertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/watermill"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/route"
)

func TestMain(m *testing.M) {
	if work := os.Getenv("GOLDA_BROKERTEST_WORK"); work != "" {
		workUntilKilled(work)
	}
	code := m.Run()
	endRabbit()
	if code == 0 {
		if err := goleak.Find(leaks...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// leaks are goroutines of watermill-amqp and of its client that outlive Close if their connection is lost: the one tries for up to a minute
// to connect again before it looks whether it was closed, the other waits for ever for a channel that is not received from any more.
var leaks = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp.(*ConnectionWrapper).handleConnectionClose"),
	goleak.IgnoreAnyFunction("github.com/rabbitmq/amqp091-go.(*Connection).shutdown.func1"),
}

// promise is what a source and a sink promise with any broker.
type promise struct {
	does string
	keep func(t *testing.T, k *kit)
	// A broker in this process cannot be killed or left, so it has no such promises.
	serverOnly bool
	kills      bool // the server
}

var promises = []promise{
	{does: "each message is handled once, by several subscriptions", keep: eachOnce},
	{does: "one subscription keeps the order, although a handler fails", keep: inOrder},
	{does: "a command that fails is delivered again until it succeeds", keep: failsTwice},
	{does: "crashes and messages that cannot be decoded become dead letters", keep: deadLetters},
	{does: "a sink publishes what a source has delivered", keep: sinks},
	{does: "a drain settles what is in flight and leaves the rest", keep: drains},
	{does: "a hard stop gives messages back", keep: hardStops, serverOnly: true},
	{does: "a process that is killed loses nothing", keep: killedProcesses, serverOnly: true},
	{does: "a broker that is away at the start is waited for", keep: awayAtStart, serverOnly: true, kills: true},
	{does: "a broker that is killed in the middle loses nothing", keep: killedBroker, serverOnly: true, kills: true},
}

func TestBrokersKeepThePromises(t *testing.T) {
	for name, open := range brokers {
		t.Run(name, func(t *testing.T) {
			for _, p := range promises {
				if p.serverOnly && name == "GoChannel" {
					continue
				}
				t.Run(p.does, func(t *testing.T) {
					if raced && p.kills && name == "RabbitMQ" {
						t.Skip("watermill-amqp has a data race of its own when it connects again")
					}
					b := open(t)
					p.keep(t, &kit{broker: b, name: name, topic: topicOf(t)})
				})
			}
		})
	}
}

var topics atomic.Int64

// topicOf returns a topic of the test's own.
func topicOf(testing.TB) string { return fmt.Sprintf("orders-%d-%d", os.Getpid(), topics.Add(1)) }

// kit is what a promise is tested with.
type kit struct {
	broker

	name  string
	topic string
}

var quiet = pipeline.Logger(slog.New(slog.DiscardHandler))

// limit is the limit of what should happen soon.
const limit = 2 * time.Minute

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, limit, 5*time.Millisecond, what)
}

// publish publishes the numbers from 0 to before n.
func (k *kit) publish(t testing.TB, n int) {
	t.Helper()
	pub := k.publisher(t)
	for i := range n {
		require.NoError(t, pub.Publish(k.topic, message.NewMessage(fmt.Sprint("id ", i), []byte(strconv.Itoa(i)))))
	}
}

// subscribe makes the topic, so that what is published from now on is kept. Redis keeps it anyway; there, a subscription that ends might have
// received a first message.
func (k *kit) subscribe(t testing.TB) {
	t.Helper()
	if k.name != "RabbitMQ" {
		return
	}
	sub := k.subscriber(t, long)
	ctx, cancel := context.WithCancel(t.Context())
	messages, err := sub.Subscribe(ctx, k.topic)
	require.NoError(t, err)
	cancel()
	for m := range messages {
		m.Nack()
	}
}

func decode(m *message.Message) (int, error) { return strconv.Atoi(string(m.Payload)) }

var quick = stage.RetryPolicy{Attempts: 5, Backoff: 5 * time.Millisecond, Max: 20 * time.Millisecond}

// source makes a source of the topic.
func (k *kit) source(t testing.TB, sub message.Subscriber, o watermill.Options[int]) *watermill.Source[int] {
	t.Helper()
	if o.Decode == nil {
		o.Decode = decode
	}
	if k.server() == "" {
		o.Subscriptions = 1 // each gets all messages
	}
	s, err := watermill.NewSource(sub, k.topic, o)
	require.NoError(t, err)
	return s
}

// shut closes a source, and requires that nothing is in flight.
func shut(t testing.TB, s *watermill.Source[int]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	require.NoError(t, s.Close(ctx))
	n := s.Counts()
	require.Zero(t, n.InFlight)
	require.Equal(t, n.Delivered, n.Acknowledged+n.GivenBack+n.DeadLettered, "%+v", n)
}

// session runs a source and a stage, and stops both.
type session struct {
	s *watermill.Source[int]
	p *pipeline.Pipeline
	k *kit
}

func (k *kit) run(t testing.TB, idle time.Duration, o watermill.Options[int], f func(ctx context.Context, n int) error, opts ...stage.Option) *session {
	t.Helper()
	sub := k.subscriber(t, idle)
	r := &session{s: k.source(t, sub, o), k: k}
	work := stage.Sink("work", f, append([]stage.Option{stage.Defaults(stage.Workers(8, 128))}, opts...)...)
	var err error
	r.p, err = pipeline.New("test", pipeline.Feed("orders", work, r.s.Feed), quiet)
	require.NoError(t, err)
	require.NoError(t, r.p.Start(t.Context()))
	t.Cleanup(func() { _ = r.p.Stop(context.Background()) })
	return r
}

func (r *session) stop(t testing.TB) {
	t.Helper()
	require.NoError(t, r.p.Stop(context.Background()))
	shut(t, r.s)
}

func (r *session) state() string { return r.p.Snapshot().Feeds[0].State }

// tally counts how often each number was handled.
type tally struct {
	mu    sync.Mutex
	times map[int]int
	order []int
}

func newTally() *tally { return &tally{times: map[int]int{}} }

func (c *tally) add(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[n]++
	c.order = append(c.order, n)
	return c.times[n]
}

func (c *tally) distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.times)
}

func (c *tally) list() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}

func (c *tally) handle(_ context.Context, n int) error { c.add(n); return nil }

func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// requireNothingLeft requires that the broker has no message of the topic left: only one that is published now is delivered.
func (k *kit) requireNothingLeft(t testing.TB) {
	t.Helper()
	if k.server() == "" { // it delivers all messages to each subscription
		return
	}
	got := newTally()
	r := k.run(t, 100*time.Millisecond, watermill.Options[int]{}, got.handle)
	require.NoError(t, k.publisher(t).Publish(k.topic, message.NewMessage("last", []byte("-1"))))
	eventually(t, "the last message", func() bool { return slices.Contains(got.list(), -1) })
	time.Sleep(300 * time.Millisecond)
	r.stop(t)
	require.Equal(t, []int{-1}, slices.Compact(got.list()), "it may come twice after so short a time")
}

func eachOnce(t *testing.T, k *kit) {
	k.subscribe(t)
	k.publish(t, 300)
	got := newTally()
	r := k.run(t, long, watermill.Options[int]{Subscriptions: 4}, got.handle)
	eventually(t, "all", func() bool { return r.s.Counts().Acknowledged == 300 })
	r.stop(t)
	require.ElementsMatch(t, numbers(300), got.list())
	k.requireNothingLeft(t)
}

func inOrder(t *testing.T, k *kit) {
	if k.server() == "" {
		t.Skip("GoChannel delivers many at once, in any order")
	}
	k.subscribe(t)
	k.publish(t, 100)
	got, tries := newTally(), newTally()
	r := k.run(t, long, watermill.Options[int]{Retry: quick}, func(ctx context.Context, n int) error {
		if n%10 == 3 && tries.add(n) < 3 {
			return errors.New("not yet")
		}
		return got.handle(ctx, n)
	})
	eventually(t, "all", func() bool { return r.s.Counts().Acknowledged == 100 })
	r.stop(t)
	require.Equal(t, numbers(100), got.list())
	require.Equal(t, uint64(20), r.s.Counts().GivenBack)
}

func failsTwice(t *testing.T, k *kit) {
	k.subscribe(t)
	k.publish(t, 20)
	got := newTally()
	r := k.run(t, long, watermill.Options[int]{Retry: quick, Subscriptions: 4}, func(_ context.Context, n int) error {
		if got.add(n) < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	eventually(t, "all", func() bool { return r.s.Counts().Acknowledged == 20 })
	r.stop(t)
	require.Equal(t, uint64(40), r.s.Counts().GivenBack)
	for n := range 20 {
		require.Equal(t, 3, got.times[n], n)
	}
	k.requireNothingLeft(t)
}

func deadLetters(t *testing.T, k *kit) {
	k.subscribe(t)
	of := *k
	of.topic = k.topic + ".dead"
	of.subscribe(t)
	pub := k.publisher(t)
	k.publish(t, 6)
	require.NoError(t, pub.Publish(k.topic, message.NewMessage("odd", []byte("not a number"))))
	r := k.run(t, long, watermill.Options[int]{Dead: pub, Retry: quick, Subscriptions: 2}, func(_ context.Context, n int) error {
		switch n {
		case 2:
			panic("two")
		case 4:
			return errors.New("four")
		}
		return nil
	})
	eventually(t, "all", func() bool { n := r.s.Counts(); return n.Acknowledged == 4 && n.DeadLettered == 3 })
	r.stop(t)

	var mu sync.Mutex
	reasons := map[string]string{}
	letters := of.run(t, long, watermill.Options[int]{Decode: func(m *message.Message) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		reasons[m.UUID+" "+string(m.Payload)] = m.Metadata.Get("golda_reason") + " of " + m.Metadata.Get("topic_poisoned")
		return 0, nil
	}}, func(context.Context, int) error { return nil })
	eventually(t, "the letters", func() bool { return letters.s.Counts().Acknowledged == 3 })
	letters.stop(t)
	require.Equal(t, map[string]string{
		"id 2 2": "crash of " + k.topic, "id 4 4": "error of " + k.topic, "odd not a number": "undecodable of " + k.topic,
	}, reasons)
	k.requireNothingLeft(t)
}

func sinks(t *testing.T, k *kit) {
	k.subscribe(t)
	out := *k
	out.topic = k.topic + "-out"
	out.subscribe(t)
	k.publish(t, 100)
	s := k.source(t, k.subscriber(t, long), watermill.Options[int]{Subscriptions: 4})
	encode := func(n int) (*message.Message, error) {
		return message.NewMessage(fmt.Sprint("out ", n), []byte(strconv.Itoa(n*n))), nil
	}
	single := stage.Sink("single", watermill.Publish(k.publisher(t), out.topic, encode))
	many := stage.New("many", watermill.PublishBatch(k.publisher(t), out.topic, encode), stage.Batch(10))
	pass := stage.Map("pass", func(_ context.Context, n int) (int, error) { return n, nil })
	p, err := pipeline.New("test", pipeline.Feed("orders", pass, s.Feed), quiet, single, many,
		pass.Route(route.ByKey(func(n int) int { return n }), single, many))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	eventually(t, "all", func() bool { return s.Counts().Acknowledged == 100 })
	require.NoError(t, p.Stop(context.Background()))
	shut(t, s)

	got := newTally()
	r := out.run(t, long, watermill.Options[int]{}, got.handle)
	eventually(t, "all", func() bool { return r.s.Counts().Acknowledged == 100 })
	r.stop(t)
	for n := range 100 {
		require.Equal(t, 1, got.times[n*n], n)
	}
}

func drains(t *testing.T, k *kit) {
	k.subscribe(t)
	k.publish(t, 400)
	got := newTally()
	release := make(chan struct{})
	sub := k.subscriber(t, long)
	if k.name == "RabbitMQ" {
		sub = plainRabbit(t, k.broker)
	}
	s := k.source(t, sub, watermill.Options[int]{Subscriptions: 100, MaxInFlight: 100})
	work := stage.Sink("work", func(_ context.Context, n int) error { got.add(n); <-release; return nil }, stage.Workers(100, 100))
	p, err := pipeline.New("test", pipeline.Feed("orders", work, s.Feed), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	eventually(t, "a hundred in flight", func() bool { return got.distinct() == 100 })
	stopped := make(chan error, 1)
	go func() { stopped <- p.Stop(context.Background()) }()
	eventually(t, "the source stops", func() bool { return p.Snapshot().Feeds[0].State == "stopped" })
	close(release)
	require.NoError(t, <-stopped)
	shut(t, s)
	require.Equal(t, uint64(100), s.Counts().Acknowledged)
	done := got.list()
	if k.server() == "" {
		return
	}
	r := k.run(t, time.Second, watermill.Options[int]{Subscriptions: 4}, got.handle)
	eventually(t, "the rest", func() bool { return got.distinct() == 400 })
	r.stop(t)
	for _, n := range done {
		require.Equal(t, 1, got.times[n], "%d was acknowledged", n)
	}
	k.requireNothingLeft(t)
}

func hardStops(t *testing.T, k *kit) {
	k.subscribe(t)
	k.publish(t, 20)
	entered := newTally()
	r := k.run(t, long, watermill.Options[int]{Subscriptions: 4}, func(ctx context.Context, n int) error {
		entered.add(n)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	eventually(t, "four in flight", func() bool { return entered.distinct() == 4 })
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.p.Stop(ended)
	shut(t, r.s)
	require.Zero(t, r.s.Counts().Acknowledged)

	got := newTally()
	r = k.run(t, 200*time.Millisecond, watermill.Options[int]{}, got.handle)
	eventually(t, "all", func() bool { return got.distinct() == 20 })
	r.stop(t)
}

func awayAtStart(t *testing.T, k *kit) {
	k.subscribe(t)
	k.publish(t, 10)
	k.kill()
	got := newTally()
	r := k.run(t, time.Second, watermill.Options[int]{Ping: k.ping}, got.handle)
	eventually(t, "the feed is away", func() bool { return r.state() == "away" })
	time.Sleep(500 * time.Millisecond)
	require.Empty(t, got.list())
	pub := k.publisher(t) // it can be made
	last := message.NewMessage("id 10", []byte("10"))
	require.Error(t, pub.Publish(k.topic, last))
	k.start(t)
	eventually(t, "the broker takes a message", func() bool { return pub.Publish(k.topic, last) == nil })
	t.Cleanup(func() { t.Log("handled:", got.list(), "the feed:", r.state(), r.s.Counts()) })
	eventually(t, "all", func() bool { return got.distinct() == 11 })
	eventually(t, "the feed runs", func() bool { return r.state() == "running" })
	require.Zero(t, r.p.Snapshot().Feeds[0].Restarts)
	r.stop(t)
}

func killedBroker(t *testing.T, k *kit) {
	k.subscribe(t)
	out := *k
	out.topic = k.topic + "-out"
	out.subscribe(t)
	k.publish(t, 300)
	s := k.source(t, k.subscriber(t, 2*time.Second), watermill.Options[int]{Subscriptions: 4, Ping: k.ping})
	got := newTally()
	pass := stage.Map("pass", func(_ context.Context, n int) (int, error) {
		got.add(n)
		time.Sleep(2 * time.Millisecond)
		return n, nil
	})
	forever := stage.RetryPolicy{Attempts: 1 << 20, Backoff: 50 * time.Millisecond, Max: 500 * time.Millisecond}
	ship := stage.Sink("ship", watermill.Publish(k.publisher(t), out.topic, func(n int) (*message.Message, error) {
		return message.NewMessage(fmt.Sprint("out ", n), []byte(strconv.Itoa(n))), nil
	}), stage.Retry(forever))
	p, err := pipeline.New("test", pipeline.Feed("orders", pass, s.Feed), quiet, pass.To(ship), ship)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	eventually(t, "some", func() bool { return s.Counts().Acknowledged > 30 })
	k.kill()
	state := func() string { return p.Snapshot().Feeds[0].State }
	eventually(t, "the feed is away", func() bool { return state() == "away" })
	k.start(t)
	eventually(t, "all", func() bool { return got.distinct() >= 300 })
	eventually(t, "the feed runs", func() bool { return state() == "running" })
	eventually(t, "nothing in flight", func() bool { return s.Counts().InFlight == 0 })
	require.Zero(t, p.Snapshot().Feeds[0].Restarts)
	require.NoError(t, p.Stop(context.Background()))
	shut(t, s)
	t.Logf("%d commands, %d messages, %+v", len(got.list()), got.distinct(), s.Counts())

	shipped := newTally()
	r := out.run(t, time.Second, watermill.Options[int]{Subscriptions: 4}, shipped.handle)
	eventually(t, "all effects", func() bool { return shipped.distinct() >= 300 })
	r.stop(t)
	for _, n := range numbers(300) {
		assert.NotZero(t, shipped.times[n], n)
	}
}

// killedProcesses has processes of their own handle messages, each for a moment. Their effects are lines of a file.
func killedProcesses(t *testing.T, k *kit) {
	const n = 3 * mostHandled
	k.subscribe(t)
	k.publish(t, n)
	dir := t.TempDir()
	effects := func() map[string]int {
		times := map[string]int{}
		text, _ := os.ReadFile(dir + "/effects")
		for line := range strings.Lines(string(text)) {
			if number, whole := strings.CutSuffix(line, "\n"); whole {
				times[number]++
			}
		}
		return times
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	kills := 0
	for begun := time.Now(); len(effects()) < n; kills++ {
		require.Less(t, time.Since(begun), limit)
		before := len(effects())
		p, err := run(dir, []string{"GOLDA_BROKERTEST_WORK=" + strings.Join([]string{k.name, k.server(), k.topic, dir + "/effects"}, " ")}, exe)
		require.NoError(t, err)
		eventually(t, "some more", func() bool {
			now := len(effects())
			return now >= min(before+mostHandled/3, n) || p.ended()
		})
		require.False(t, p.ended(), p.text.String())
		p.kill()
	}
	require.GreaterOrEqual(t, kills, 3)
	got := newTally() // what was in flight at the last kill
	r := k.run(t, 300*time.Millisecond, watermill.Options[int]{}, got.handle)
	time.Sleep(time.Second)
	eventually(t, "nothing in flight", func() bool { return r.s.Counts().InFlight == 0 })
	r.stop(t)
	k.requireNothingLeft(t)
	for i := range n {
		require.NotZero(t, effects()[strconv.Itoa(i)], i)
	}
}

// mostHandled is how many messages a process of killedProcesses handles, if it is not killed before: so several processes are needed, however
// fast they are. It handles some messages again that the process before it has not acknowledged.
const mostHandled = 120

// workUntilKilled handles the messages of a topic: it writes a line for each, and then waits to be killed.
func workUntilKilled(work string) {
	parts := strings.SplitN(work, " ", 4)
	k := &kit{broker: attach(parts[0], parts[1]), name: parts[0], topic: parts[2]}
	file, err := os.OpenFile(parts[3], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	t := &noTest{}
	s := k.source(t, k.subscriber(t, 300*time.Millisecond), watermill.Options[int]{Subscriptions: 2})
	var handled atomic.Int32
	write := stage.Sink("write", func(_ context.Context, n int) error {
		if handled.Add(1) > mostHandled {
			select {}
		}
		_, err := fmt.Fprintln(file, n)
		return err
	})
	p, err := pipeline.New("work", pipeline.Feed("orders", write, s.Feed))
	if err == nil {
		err = p.Run(context.Background())
	}
	panic(fmt.Sprint("the worker has ended: ", err))
}

// noTest is the test of a process that is none.
type noTest struct{ testing.TB }

func (*noTest) Helper()                           {}
func (*noTest) Cleanup(func())                    {}
func (*noTest) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*noTest) FailNow()                          { panic("failed") }
