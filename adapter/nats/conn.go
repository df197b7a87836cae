package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/internal/link"
)

// Conn is a connection to a NATS server: one by URL ([Connect]), or one inside the process ([Embed], [Join]). Any number of goroutines
// may use it.
//
// A Conn has the inlets that were made with it until it is closed; their goroutines run while they feed a stage, and until nothing is in
// flight. Close it when the pipelines that its inlets feed have stopped.
type Conn struct {
	nc      *natsgo.Conn
	js      jetstream.JetStream
	async   jetstream.JetStream // for batches; one for all inlets, since each has a goroutine until the connection is closed
	copies  int                 // how many servers hold a new stream whose options do not say it
	release func() error        // stops the embedded server; nil if there is none
	failure func() error        // why the embedded server cannot write any more, or nil; nil if there is none
	health  func() error        // what the embedded server lacks, or nil; nil if there is none

	mu      sync.Mutex // guards the rest
	inlets  []closer
	calls   []func(ctx context.Context) error // close the exchanges of carriers
	closing bool

	once     sync.Once
	closeErr error
}

// closer is an inlet of any type.
type closer interface {
	close(ctx context.Context) error
	info() InletInfo
}

// Connect connects to the servers at a URL, or at several with commas between. The options are those of nats.go, for credentials, TLS and
// the like:
//
//	conn, err := nats.Connect(ctx, "tls://nats.example.com", natsgo.UserCredentials("app.creds"))
//
// Unless the options say otherwise the connection reconnects for ever, which is what inlets expect, and is named golda. The first
// connection must succeed, before ctx ends: otherwise the error names the URL, without a password, and wraps the error of nats.go, such as
// ErrAuthorization. The server must have JetStream and the version 2.9.0 at least.
func Connect(ctx context.Context, url string, options ...natsgo.Option) (*Conn, error) {
	link.CheckContext(ctx, "nats: Connect")
	nc, err := dial(ctx, url, append(defaults(250*time.Millisecond), options...))
	if err != nil {
		return nil, fmt.Errorf("nats: connect to %s: %w", redacted(url), err)
	}
	c, err := newConn(ctx, nc, nil)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("nats: connect to %s: %w", redacted(url), err)
	}
	return c, nil
}

// defaults are the options of every connection. Errors that are no answer to a call are of no use beside those that are: package nats.go
// would write them to the standard error.
func defaults(wait time.Duration) []natsgo.Option {
	return []natsgo.Option{
		natsgo.Name("golda"), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(wait),
		natsgo.IgnoreAuthErrorAbort(), // credentials that are refused now may be taken later
		natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {}),
	}
}

// dial connects, and gives up when ctx ends. A connection that comes later is closed.
func dial(ctx context.Context, url string, options []natsgo.Option) (*natsgo.Conn, error) {
	type result struct {
		nc  *natsgo.Conn
		err error
	}
	connected := make(chan result, 1)
	go func() {
		nc, err := natsgo.Connect(url, options...)
		connected <- result{nc, err}
	}()
	select {
	case r := <-connected:
		return r.nc, r.err
	case <-ctx.Done():
		go func() {
			if r := <-connected; r.nc != nil {
				r.nc.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// newConn makes a Conn of a connection, and looks whether the server has what an inlet needs.
func newConn(ctx context.Context, nc *natsgo.Conn, release func() error) (*Conn, error) {
	if v := nc.ConnectedServerVersion(); tooOld(v) {
		return nil, fmt.Errorf("the server has the version %s, and an inlet needs %d.%d.0 at least", v, leastMajor, leastMinor)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	async, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(answerTime), jetstream.WithPublishAsyncMaxPending(mostUnanswered))
	if err != nil {
		return nil, err
	}
	if _, err := js.AccountInfo(ctx); err != nil {
		return nil, explain(err)
	}
	return &Conn{nc: nc, js: js, async: async, copies: 1, release: release}, nil
}

// The first version of the server whose streams keep one letter for a subject.
const (
	leastMajor = 2
	leastMinor = 9
)

// tooOld reports whether the version of a server lacks what an inlet needs. One that cannot be read does not.
func tooOld(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major < leastMajor || major == leastMajor && minor < leastMinor)
}

// replicas returns how many servers hold a stream whose options do not say it: as many as now, if it is there.
func (c *Conn) replicas(ctx context.Context, stream string) (int, error) {
	s, err := c.js.Stream(ctx, stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return c.copies, nil
	case err != nil:
		return 0, c.explain(err)
	default:
		return s.CachedInfo().Config.Replicas, nil
	}
}

// JetStream returns the connection as package jetstream of nats.go has it, for what this package does not do. Its method Conn
// returns the connection itself.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// Healthy returns nil if the connection is there and the embedded server, if there is one, has all its streams. That of a member has caught
// up with its cluster then: so stop or update one member after the other, each when the last one is healthy. The error is
// [ErrAway], or [ErrFull] if the disk is full. It is of use for the readiness of a process, not for its liveness.
func (c *Conn) Healthy() error {
	err := c.broken()
	switch {
	case err != nil:
	case !c.nc.IsConnected():
		err = explain(natsgo.ErrDisconnected)
	case c.health != nil:
		err = c.health()
	}
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	return nil
}

// Close waits until the inlets have acknowledged, or given back, what they have delivered, and closes the connection; an embedded
// server stops. If ctx ends first, Close does not wait for the rest: it is delivered again, by the next process. A second call
// waits for the first, and returns the same.
//
// Close after the pipeline has stopped. Before, Close waits for the pipeline.
func (c *Conn) Close(ctx context.Context) error {
	link.CheckContext(ctx, "nats: Close")
	c.once.Do(func() {
		c.mu.Lock()
		c.closing = true
		inlets, calls := c.inlets, c.calls
		c.mu.Unlock()
		var errs []error
		for _, end := range calls {
			errs = append(errs, end(ctx))
		}
		for _, i := range inlets {
			errs = append(errs, i.close(ctx))
		}
		if c.nc.IsConnected() {
			errs = append(errs, c.flush(ctx))
		}
		c.nc.Close()
		if c.release != nil {
			errs = append(errs, c.release())
		}
		c.closeErr = errors.Join(errs...)
	})
	return c.closeErr
}

// flush waits until the server has the last acknowledgements. That the connection is lost meanwhile, which nats.go reports as closed, is
// no error, as it is none if it was lost before: what was not acknowledged is delivered again.
func (c *Conn) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	err := c.nc.FlushWithContext(ctx)
	if errors.Is(err, natsgo.ErrConnectionClosed) {
		return nil
	}
	return err
}

// flushTime is how long the last acknowledgements may take to leave.
const flushTime = 5 * time.Second

// errClosed refuses an inlet of a connection that is closed.
var errClosed = errors.New("the connection is closed")

// explain returns an error of the server as one of this package, if it has a meaning for users.
func (c *Conn) explain(err error) error {
	if err != nil {
		if broken := c.broken(); broken != nil {
			return broken
		}
	}
	return explain(err)
}

// broken returns why the embedded server cannot write any more, or nil.
func (c *Conn) broken() error {
	if c.failure == nil {
		return nil
	}
	return c.failure()
}

// own adds an inlet to those that Close waits for.
func (c *Conn) own(i closer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return errClosed
	}
	c.inlets = append(c.inlets, i)
	return nil
}

// ownExchange adds what closes an exchange of calls to what Close does.
func (c *Conn) ownExchange(end func(ctx context.Context) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return errClosed
	}
	c.calls = append(c.calls, end)
	return nil
}
