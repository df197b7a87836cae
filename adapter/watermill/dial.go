package watermill

import (
	"context"
	"errors"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Dial returns a Subscriber that calls open for each subscription, and closes what open returned when the subscription ends. It is for
// subscribers whose constructors need the broker, as those of RabbitMQ do: while it is away a [Source] waits and tries again.
//
//	sub := watermill.Dial(func() (message.Subscriber, error) { return amqp.NewSubscriber(config, logger) })
//
// Close of the Subscriber ends all subscriptions and waits for them. Any goroutine may use it. A nil open panics.
func Dial(open func() (message.Subscriber, error)) message.Subscriber {
	if open == nil {
		panic("watermill: Dial: the function is nil")
	}
	return &dialed{open: open, closing: make(chan struct{})}
}

var (
	errClosed       = errors.New("watermill: Dial: the Subscriber is closed")
	errNoSubscriber = errors.New("watermill: Dial: the function has returned no Subscriber")
)

type dialed struct {
	open    func() (message.Subscriber, error)
	closing chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex // guards the rest
	closed bool
	errs   []error // of Close, one for each subscriber that it has closed
}

// Subscribe opens a subscriber and subscribes.
func (d *dialed) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errClosed
	}
	d.running.Add(1)
	d.mu.Unlock()
	kept := false
	defer func() {
		if !kept {
			d.running.Done()
		}
	}()
	sub, err := d.open()
	if err != nil {
		return nil, err
	}
	if sub == nil {
		return nil, errNoSubscriber
	}
	messages, err := sub.Subscribe(ctx, topic)
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	kept = true
	go d.closeAfter(ctx, sub)
	return messages, nil
}

// closeAfter closes a subscriber when its subscription is to end.
func (d *dialed) closeAfter(ctx context.Context, sub message.Subscriber) {
	defer d.running.Done()
	select {
	case <-ctx.Done():
	case <-d.closing:
	}
	err := sub.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		d.errs = append(d.errs, err)
	}
}

// Close closes all subscribers. It returns their errors, once.
func (d *dialed) Close() error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.closing)
	}
	d.mu.Unlock()
	d.running.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	err := errors.Join(d.errs...)
	d.errs = nil
	return err
}
