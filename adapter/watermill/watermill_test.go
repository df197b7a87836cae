package watermill_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/watermill"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = pipeline.Logger(slog.New(slog.DiscardHandler))

// long is the limit of what should happen soon.
const long = time.Minute

// broker is a broker in memory: a queue of messages, of which it delivers some at once. Like most subscribers of Watermill it delivers what is nacked
// again, and what was in flight when a subscription ended.
type broker struct {
	window int // deliveries at once

	mu        sync.Mutex // guards the rest
	queue     []string   // payloads
	down      error      // of Subscribe
	acked     map[string]int
	nacked    map[string]int
	delivered map[string]int
	cut       chan struct{} // closed to end all subscriptions
	blank     bool          // messages have no context of their own
	idle      time.Duration // between looks for a message; 0 means a millisecond
	slow      time.Duration // how long it takes to pass an acknowledgement on, if its subscription does not end before
}

func newBroker(window int, payloads ...string) *broker {
	return &broker{
		window: window, queue: payloads, acked: map[string]int{}, nacked: map[string]int{}, delivered: map[string]int{}, cut: make(chan struct{}),
	}
}

func (b *broker) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down != nil {
		return nil, b.down
	}
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan *message.Message)
	cut := b.cut
	go func() {
		select {
		case <-cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	go func() {
		defer cancel()
		var all sync.WaitGroup
		for range b.window {
			all.Go(func() { b.deliver(ctx, out) })
		}
		all.Wait()
		close(out)
	}()
	return out, nil
}

// deliver delivers one message after the other until ctx ends.
func (b *broker) deliver(ctx context.Context, out chan<- *message.Message) {
	for ctx.Err() == nil {
		payload, ok := b.take()
		if !ok {
			select {
			case <-time.After(max(b.idle, time.Millisecond)):
			case <-ctx.Done():
			}
			continue
		}
		m := message.NewMessage("id "+payload, []byte(payload))
		own, cancel := context.WithCancel(ctx)
		if !b.blank {
			m.SetContext(own)
		}
		select {
		case out <- m:
			b.count(b.delivered, payload)
			select {
			case <-m.Acked():
				if time.Sleep(b.slow); b.slow > 0 && ctx.Err() != nil {
					b.giveBack(payload)
					break
				}
				b.count(b.acked, payload)
			case <-m.Nacked():
				b.count(b.nacked, payload)
				b.giveBack(payload)
			case <-ctx.Done():
				b.giveBack(payload)
			}
		case <-ctx.Done():
			b.giveBack(payload)
		}
		cancel()
	}
}

func (b *broker) take() (payload string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return "", false
	}
	payload = b.queue[0]
	b.queue = b.queue[1:]
	return payload, true
}

func (b *broker) giveBack(payload string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append([]string{payload}, b.queue...)
}

func (b *broker) count(of map[string]int, payload string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of[payload]++
}

// total returns the sum of counts.
func (b *broker) total(of map[string]int) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range of {
		n += k
	}
	return n
}

// fail ends all subscriptions, and refuses further ones until err is nil.
func (b *broker) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = err
	if err != nil {
		close(b.cut)
		b.cut = make(chan struct{})
	}
}

func (b *broker) Close() error { return nil }

// letters is a publisher that keeps what it is given.
type letters struct {
	mu   sync.Mutex // guards the rest
	all  []*message.Message
	errs []error // of the next calls; a nil one panics
}

func (l *letters) Publish(topic string, all ...*message.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		if err == nil {
			panic("the publisher is broken")
		}
		return err
	}
	for _, m := range all {
		m.Metadata.Set("topic", topic)
	}
	l.all = append(l.all, all...)
	return nil
}

func (l *letters) Close() error { return nil }

func (l *letters) list() []*message.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*message.Message{}, l.all...)
}

// text decodes the payload of a message as it is.
func text(m *message.Message) (string, error) { return string(m.Payload), nil }

// numbers returns the payloads 0 to n-1.
func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

// newSource makes a source of a topic, which is closed at the end of the test.
func newSource(t testing.TB, sub message.Subscriber, o watermill.Options[string]) *watermill.Source[string] {
	t.Helper()
	if o.Decode == nil {
		o.Decode = text
	}
	s, err := watermill.NewSource(sub, "orders", o)
	require.NoError(t, err)
	t.Cleanup(func() { shut(t, s) })
	return s
}

// shut closes a source, and looks whether its counts fit.
func shut(t testing.TB, s *watermill.Source[string]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	require.NoError(t, s.Close(ctx))
	n := s.Counts()
	require.Zero(t, n.InFlight)
	requireLaw(t, n)
}

func requireLaw(t require.TestingT, n watermill.Counts) {
	require.Equal(t, n.Delivered, n.Acknowledged+n.GivenBack+n.DeadLettered+n.InFlight, "%+v", n)
}

// start starts a pipeline of one stage and its source. It is stopped at the end of the test, if not before.
func start(t testing.TB, to behaviour.Target[string], src source.Source[string], parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("test", append(parts, pipeline.Feed("feed", to, src), quiet)...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}

func eventually(t testing.TB, what func() bool, text ...any) {
	t.Helper()
	require.Eventually(t, what, long, time.Millisecond, text...)
}

// bus is a GoChannel, which is closed at the end of the test.
func bus(t testing.TB) *gochannel.GoChannel {
	t.Helper()
	g := gochannel.NewGoChannel(gochannel.Config{}, nil)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

var errAway = errors.New("connection refused")

func payloads(of []*message.Message) (all []string) {
	for _, m := range of {
		all = append(all, string(m.Payload))
	}
	return all
}
