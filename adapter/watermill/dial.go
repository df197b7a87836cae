package watermill

import (
	"context"
	"errors"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Dial returns a Subscriber that calls open for each subscription, and closes
// the opened Subscriber when the subscription ends. It is for subscribers whose
// constructors need a connected broker, as in RabbitMQ's package: while the
// broker is away a [Source] waits and tries again.
//
//	sub := watermill.Dial(func() (message.Subscriber, error) { return amqp.NewSubscriber(config, logger) })
//
// Close of the Subscriber ends all subscriptions and waits for them. Any
// goroutine may use it. A nil open panics.
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
func (d *dialed) Subscribe(ctx context.Context, topic string) (messages <-chan *message.Message, err error) {
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
	defer func() {
		if !kept { // also after a panic
			err = errors.Join(err, sub.Close())
		}
	}()
	if messages, err = sub.Subscribe(ctx, topic); err != nil {
		return nil, err
	}
	kept = true
	go d.closeAfter(ctx, sub)
	return messages, nil
}

// closeAfter closes a subscriber when its subscription must end.
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

// DialPublisher returns a Publisher that calls open at the first Publish, and
// at later ones until open has returned a Publisher, which it keeps. It is for
// publishers whose constructors need a connected broker, as in the packages of
// RabbitMQ and Kafka, and for programs that must start without it. An error of
// open is returned by Publish: a [Source] then publishes the dead letter again
// later, and a stage retries the command as its policy says.
//
//	pub := watermill.DialPublisher(func() (message.Publisher, error) { return amqp.NewPublisher(config, logger) })
//
// While one call of Publish waits for open, other calls wait for it and share
// its error. Close closes the opened Publisher; after it Publish fails. Any
// goroutine may use the Publisher. A nil open panics.
func DialPublisher(open func() (message.Publisher, error)) message.Publisher {
	if open == nil {
		panic("watermill: DialPublisher: the function is nil")
	}
	return &dialedPublisher{open: open}
}

var (
	errPublisherClosed = errors.New("watermill: DialPublisher: the Publisher is closed")
	errNoPublisher     = errors.New("watermill: DialPublisher: the function has returned no Publisher")
)

type dialedPublisher struct {
	open func() (message.Publisher, error)

	mu     sync.Mutex // guards the rest
	last   *opening   // nil before the first one, and after one that has failed
	closed bool
}

// opening is a call of open.
type opening struct {
	done chan struct{} // closed at its end
	pub  message.Publisher
	err  error
}

// Publish publishes messages.
func (d *dialedPublisher) Publish(topic string, messages ...*message.Message) error {
	pub, err := d.publisher()
	if err != nil {
		return err
	}
	return pub.Publish(topic, messages...)
}

// publisher returns the publisher, which it opens if there is none.
func (d *dialedPublisher) publisher() (message.Publisher, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errPublisherClosed
	}
	o := d.last
	if o != nil {
		d.mu.Unlock()
		<-o.done
		return o.pub, o.err
	}
	o = &opening{done: make(chan struct{}), err: errGoexit}
	d.last = o
	d.mu.Unlock()
	defer d.opened(o) // also after a panic
	if o.pub, o.err = d.open(); o.err == nil && o.pub == nil {
		o.err = errNoPublisher
	}
	return o.pub, o.err
}

// opened ends a call of open.
func (d *dialedPublisher) opened(o *opening) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.err != nil {
		d.last = nil
	}
	close(o.done)
}

// Close waits for a running call of open, and closes the Publisher that it
// returned.
func (d *dialedPublisher) Close() error {
	d.mu.Lock()
	o, closed := d.last, d.closed
	d.closed = true
	d.mu.Unlock()
	if closed || o == nil {
		return nil
	}
	<-o.done
	if o.err != nil {
		return nil //nolint:nilerr // there is nothing to close
	}
	return o.pub.Close()
}
