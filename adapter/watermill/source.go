package watermill

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	bounds "github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage/headers"
)

// ErrFed is the error of a source that feeds another stage.
var ErrFed = errors.New("the source feeds a stage already")

// Source takes the messages of a topic as commands. Any goroutine may call its
// methods.
type Source[C any] struct {
	*settler

	sub     message.Subscriber
	o       Options[C]
	fed     atomic.Bool     // while Feed runs
	closing context.Context // ended by Close
	close   context.CancelFunc
}

// NewSource returns a source of the messages of a topic. It subscribes when a
// pipeline runs its Feed. The Subscriber stays yours: close it after
// [Source.Close]. All that is wrong with the arguments is in one error.
func NewSource[C any](sub message.Subscriber, topic string, o Options[C]) (*Source[C], error) {
	if err := o.check(sub, topic); err != nil {
		return nil, fmt.Errorf("watermill: source %q: %w", topic, err)
	}
	o = o.filled(topic)
	s := &Source[C]{sub: sub, o: o, settler: newSettler(settlerConfig{
		topic: topic, log: o.Logger.With("topic", topic), retry: o.Retry, dead: o.Dead, deadTopic: o.DeadTopic, most: o.MaxInFlight,
	})}
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Feed is the source of a pipeline.Feed:
//
//	pipeline.Feed("orders", book, orders.Feed)
//
// It submits the command of each message, and deals with the message when the
// command has ended. While the broker is away it waits and subscribes again.
// When the pipeline stops, nothing more is received, and the messages whose
// commands have not ended stay in flight until they have: the subscription ends
// after that. A source feeds one stage at a time, and is exhausted when it was
// closed.
func (s *Source[C]) Feed(ctx context.Context, submit func(C) error) error {
	if err := bounds.SetBound(ctx, bounds.Bound{Most: s.o.MaxInFlight, Source: fmt.Sprintf("source %q", s.topic), Option: "MaxInFlight"}); err != nil {
		return err
	}
	if !s.fed.CompareAndSwap(false, true) {
		return source.Fatal(fmt.Errorf("watermill: source %q: %w", s.topic, ErrFed))
	}
	defer s.fed.Store(false)
	return source.Ends(s.feed)(ctx, submit)
}

func init() { bounds.Bounds("github.com/golda-dev/golda/adapter/watermill.(*Source[...]).Feed-fm") }

// feed runs the subscriptions until ctx ends, the source is closed, or a
// submission fails.
func (s *Source[C]) feed(ctx context.Context, submit func(C, func(error)) error) error {
	if !s.enter() {
		return nil
	}
	defer s.running.Done()
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.closing, func() { cancel(nil) })()
	f := &feed[C]{Source: s, submit: submit, cursor: bounds.Of(ctx), broker: broker{set: func(err error) { source.SetAway(ctx, err) }, log: s.log}}
	var loops sync.WaitGroup
	for range s.o.Subscriptions {
		loops.Go(func() {
			why := errGoexit
			defer func() { cancel(why) }()
			why = f.loop(own)
		})
	}
	loops.Go(func() { f.look(own, bounds.Of(ctx)) })
	if s.o.Ping != nil {
		loops.Go(func() { f.ping(own, &s.running, s.o.Ping) })
	}
	loops.Wait()
	if s.closing.Err() != nil {
		return nil
	}
	return context.Cause(own)
}

// lookTime is how often a source looks whether it waits for the ends of
// commands.
const lookTime = time.Second

// look reports to the pipeline that the source waits for the ends of its
// commands, until ctx ends.
func (f *feed[C]) look(ctx context.Context, c *bounds.Cursor) {
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if f.isFull(now) {
				c.IsFull()
			}
		case <-ctx.Done():
			return
		}
	}
}

// Close ends the source and waits until all messages are acknowledged, nacked
// or dead letters, and the subscriptions have ended. Call it after Run, or
// earlier: then the source is exhausted. It returns an error if ctx ends
// before. Messages that are in flight then are nacked, and the error says how
// many. Closing twice is no error.
func (s *Source[C]) Close(ctx context.Context) error {
	link.CheckContext(ctx, "watermill: Close")
	s.leave()
	s.close()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.force()
		return nil
	case <-ctx.Done():
	}
	n := s.Counts().InFlight
	s.force()
	err := fmt.Errorf("watermill: source %q: %d messages were in flight, and will be delivered again: %w", s.topic, n, context.Cause(ctx))
	select {
	case <-done:
	case <-time.After(confirmTime):
		err = fmt.Errorf("%w; the subscription has not ended", err)
	}
	return err
}

// feed is one run of a source.
type feed[C any] struct {
	*Source[C]
	broker

	submit func(C, func(error)) error
	cursor *bounds.Cursor // nil without a feed
}

// The pauses before another attempt to reach the broker.
const (
	firstRetry   = 100 * time.Millisecond
	longestRetry = 5 * time.Second
	retryJitter  = 0.2
)

var (
	errOver    = errors.New("the subscription has ended")
	errGoexit  = errors.New("a function has ended its goroutine")
	errChannel = errors.New("the channel of messages is nil")
)

// loop subscribes again and again, until ctx ends or a submission fails.
func (f *feed[C]) loop(ctx context.Context) error {
	for n := 1; ; n++ {
		worked, err := f.session(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case worked:
			n = 1
		}
		if !sleep(ctx, retryPause(n)) {
			return context.Cause(ctx)
		}
	}
}

// session subscribes, and takes messages until the subscription ends, ctx ends,
// or a submission fails: only that is an error. Worked reports that the
// subscription was of use.
func (f *feed[C]) session(ctx context.Context) (worked bool, err error) {
	s, err := f.subscribe(ctx)
	if err != nil {
		if ctx.Err() == nil {
			f.failed(fmt.Errorf("subscribe: %w", err))
		}
		return false, nil
	}
	f.up()
	began := time.Now()
	defer func() {
		if ctx.Err() == nil {
			f.down(errOver)
		}
		s.retire()
		f.running.Go(s.finish)
	}()
	for {
		var m *message.Message
		select {
		case next, ok := <-s.messages:
			if !ok {
				return worked || time.Since(began) > longestRetry, nil
			}
			m = next
		case <-ctx.Done():
			return worked, nil
		}
		if m == nil {
			continue
		}
		worked = true
		// after the message has arrived: an idle subscription must not take a
		// place from another one
		select {
		case f.places <- struct{}{}:
		case <-ctx.Done():
			f.refuse(m)
			return worked, nil
		}
		if err := f.take(s, m); err != nil {
			return worked, err
		}
	}
}

// take submits the command of a message. It returns the error of the
// submission.
func (f *feed[C]) take(s *subscription, m *message.Message) error {
	d := s.arrive(m)
	err := errGoexit
	defer func() { // also after a runtime.Goexit
		if err != nil {
			f.undecodable(d, err)
		}
	}()
	var cmd C
	if cmd, err = f.decode(m); err != nil {
		return nil
	}
	as := bounds.Span{Derive: headers.From(m.Metadata.Get)}
	if err := f.cursor.Within(as, func() error { return f.submit(cmd, func(err error) { f.ended(d, err) }) }); err != nil {
		f.settle(d, givenBack)
		return err
	}
	return nil
}

// decode returns the command of a message. A panic is an error.
func (f *feed[C]) decode(m *message.Message) (cmd C, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the function Decode has panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return f.o.Decode(m)
}

// subscribe subscribes to the topic, unless ctx ends before: a subscription
// that comes later is ended.
func (f *feed[C]) subscribe(ctx context.Context) (*subscription, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the run until all is settled
	type result struct {
		messages <-chan *message.Message
		err      error
	}
	results := make(chan result, 1)
	f.running.Go(func() {
		r := result{err: errGoexit}
		defer func() {
			if v := recover(); v != nil {
				r.err = fmt.Errorf("the Subscriber has panicked: %v\n%s", v, debug.Stack())
			}
			results <- r
		}()
		r.messages, r.err = f.sub.Subscribe(own, f.topic)
	})
	select {
	case r := <-results:
		if r.err == nil && r.messages == nil {
			r.err = errChannel
		}
		if r.err != nil {
			cancel()
			return nil, r.err
		}
		return newSubscription(own, cancel, f.settler, r.messages), nil
	case <-ctx.Done():
		cancel()
		f.running.Go(func() {
			if r := <-results; r.err == nil && r.messages != nil {
				f.refuseAll(r.messages)
			}
		})
		return nil, context.Cause(ctx)
	}
}

// sleep waits, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
