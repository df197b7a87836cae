package nats

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/internal/link"
)

// Conn is a connection to a NATS server: one by URL ([Connect]), to the server
// of another process of this machine ([Reach]), or one inside the process
// ([Embed]). Any number of goroutines may use it.
//
// A Conn has the inlets that were made with it until it is closed; their
// goroutines run while they feed a stage, and until nothing is in flight. Close
// it when the pipelines that its inlets feed have stopped.
type Conn struct {
	nc      *natsgo.Conn
	js      jetstream.JetStream
	async   jetstream.JetStream // for batches; one for all inlets, since each has a goroutine until the connection is closed
	release func() error        // stops the embedded server; nil if there is none
	failure func() error        // why the embedded server cannot write any more, or nil; nil if there is none
	health  func() error        // what the embedded server lacks, or nil; nil if there is none
	denials *denials

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
	needs(subject string) bool
	denied(now *denial, ofInlet bool)
	lacks() error
}

// Connect connects to the servers at a URL, or at several with commas between.
// The options are options of nats.go, for credentials, TLS and the like:
//
//	conn, err := nats.Connect(ctx, "tls://nats.example.com", natsgo.UserCredentials("app.creds"))
//
// Unless the options say otherwise the connection is named golda, reconnects
// for ever, as inlets expect, and leaves a server that is silent for 15 s. The
// answers of the server come to subjects with the prefix _INBOX_USER for a user
// with a name or an Nkey, and _INBOX for others; natsgo.CustomInboxPrefix gives
// another one. Permit each user to subscribe to its own prefix only: a user
// that may subscribe to _INBOX.> reads the answers to others. The first
// connection must succeed, before ctx ends: otherwise the error names the URL,
// without a password, and wraps the error of nats.go, such as ErrAuthorization.
// The server must have JetStream and the version 2.9.0 at least.
func Connect(ctx context.Context, servers string, options ...natsgo.Option) (*Conn, error) {
	link.CheckContext(ctx, "nats: Connect")
	c, err := connect(ctx, servers, options)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	return c, nil
}

func connect(ctx context.Context, servers string, options []natsgo.Option) (*Conn, error) {
	nc, err := dial(ctx, servers, slices.Concat(defaults(250*time.Millisecond), options, []natsgo.Option{ownInbox}))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", redacted(servers), withoutURL(err))
	}
	c, err := newConn(ctx, nc, nil)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect to %s: %w", redacted(servers), err)
	}
	return c, nil
}

// defaults are the options of every connection. Errors that do not answer a
// call add nothing to the errors that do. Without an error handler package
// nats.go would write them to the standard error.
func defaults(wait time.Duration) []natsgo.Option {
	return []natsgo.Option{
		natsgo.Name("golda"), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(wait), natsgo.PingInterval(pingTime),
		natsgo.IgnoreAuthErrorAbort(), // credentials that are refused now may be taken later
		natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {}),
	}
}

// pingTime is how often a connection asks its server for a sign of life. After
// two that were not answered it looks for another server: a machine that loses
// its power ends no connection.
const pingTime = 5 * time.Second

// ownInbox gives the connection of a user a prefix of its own for the subjects
// of answers, if the options have none: a user that may subscribe to _INBOX.>
// reads the answers to all others. It is the last option.
func ownInbox(o *natsgo.Options) error {
	user := o.User
	for _, server := range append([]string{o.Url}, o.Servers...) {
		if u, err := url.Parse(server); user == "" && err == nil && u.User != nil {
			if _, named := u.User.Password(); named { // otherwise it is a token
				user = u.User.Username()
			}
		}
	}
	if o.Nkey != "" {
		user = o.Nkey
	}
	if o.InboxPrefix == "" && validName.MatchString(user) {
		o.InboxPrefix = inboxOf(user)
	}
	return nil
}

// inboxOf returns the prefix of the subjects of answers to a user.
func inboxOf(user string) string { return strings.TrimSuffix(natsgo.InboxPrefix, ".") + "_" + user }

// errURL replaces the error of a URL that cannot be parsed, which has parts of
// it.
var errURL = errors.New("the URL cannot be parsed")

// withoutURL returns an error of nats.go without a URL, which may have a
// password.
func withoutURL(err error) error {
	if _, is := errors.AsType[*url.Error](err); is {
		return errURL
	}
	return err
}

// dial connects, and gives up when ctx ends. A connection that comes later is
// closed.
func dial(ctx context.Context, servers string, options []natsgo.Option) (*natsgo.Conn, error) {
	type result struct {
		nc  *natsgo.Conn
		err error
	}
	connected := make(chan result, 1)
	go func() {
		nc, err := natsgo.Connect(servers, options...)
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

// newConn makes a Conn of a connection, and looks whether the server has what
// an inlet needs.
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
	c := &Conn{nc: nc, js: js, async: async, release: release, denials: watch(nc)}
	err = c.denials.ask(ctx, isAPI, func(ctx context.Context) error {
		_, err := js.AccountInfo(ctx)
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the server has not said whether it has JetStream: %w", err)
	}
	if err != nil {
		return nil, explain(err)
	}
	c.denials.listen(c.tellDenied)
	return c, nil
}

// isAPI reports whether a subject is one of JetStream's requests.
func isAPI(subject string) bool { return strings.HasPrefix(subject, jetstream.DefaultAPIPrefix) }

// tellDenied makes the inlets that need a subject log its denial. If none needs
// it, the first inlet logs it, without the inlet's name.
func (c *Conn) tellDenied(now *denial) {
	c.mu.Lock()
	inlets := slices.Clone(c.inlets)
	c.mu.Unlock()
	needed := false
	for _, i := range inlets {
		if i.needs(now.subject) {
			needed = true
			i.denied(now, true)
		}
	}
	if !needed && len(inlets) > 0 {
		inlets[0].denied(now, false)
	}
}

// The first version of the server whose streams keep one letter for a subject.
const (
	leastMajor = 2
	leastMinor = 9
)

// tooOld reports whether the version of a server lacks what an inlet needs. One
// that cannot be read does not.
func tooOld(version string) bool { return olderThan(version, leastMajor, leastMinor) }

// olderThan reports whether the version of a server is before another one. One
// that cannot be read is not.
func olderThan(version string, thanMajor, thanMinor int) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major < thanMajor || major == thanMajor && minor < thanMinor)
}

// replicas returns how many servers hold a stream whose options do not say it:
// as many as now, if it is there.
func (c *Conn) replicas(ctx context.Context, stream string) (int, error) {
	s, err := c.js.Stream(ctx, stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 1, nil
	case err != nil:
		return 0, c.explain(err)
	default:
		return s.CachedInfo().Config.Replicas, nil
	}
}

// JetStream returns the connection as package jetstream of nats.go has it, for
// uses that this package does not cover. Its method Conn returns the connection
// itself.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// Healthy returns nil if the connection is there, the embedded server, if there
// is one, has all its streams, and no inlet that feeds a stage waits for a
// stream that the server does not have. The error is [ErrAway], or [ErrFull] if
// the disk is full, or names the inlets that wait, or names the subjects that
// the server has not permitted since the connection was made last, at most 64
// and the newest first. It is of use for the readiness of a process, not for
// its liveness.
func (c *Conn) Healthy() error {
	err := c.broken()
	switch {
	case err != nil:
	case !c.nc.IsConnected():
		err = explain(natsgo.ErrDisconnected)
	case c.health != nil:
		err = c.health()
	}
	if err == nil {
		err = c.lacks()
	}
	if err == nil {
		err = c.denials.all()
	}
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	return nil
}

// lacks returns the errors of the inlets that feed stages and have not found
// their streams at the server.
func (c *Conn) lacks() error {
	c.mu.Lock()
	inlets := slices.Clone(c.inlets)
	c.mu.Unlock()
	var errs []error
	for _, i := range inlets {
		errs = append(errs, i.lacks())
	}
	return errors.Join(errs...)
}

// Close waits until the inlets have acknowledged or given back all messages
// that were delivered to them, and closes the connection; an embedded server
// stops. If ctx ends first, Close does not wait for the remaining messages:
// they are delivered again, to the next process. A second call waits for the
// first, and returns the same.
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

// flush waits until the server has the last acknowledgements. A lost connection
// is not an error: the server redelivers every message that was not
// acknowledged. nats.go reports it as closed, or not at all if it is lost just
// as the flush begins.
func (c *Conn) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	err := c.nc.FlushWithContext(ctx)
	if errors.Is(err, natsgo.ErrConnectionClosed) || !c.nc.IsConnected() {
		return nil
	}
	return err
}

// flushTime is how long the last acknowledgements may take to leave.
const flushTime = 5 * time.Second

// errClosed refuses an inlet of a connection that is closed.
var errClosed = errors.New("the connection is closed")

// explain returns an error of the server as one of this package, if it has a
// meaning for users.
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

// own adds an inlet to the inlets that Close waits for.
func (c *Conn) own(i closer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return errClosed
	}
	c.inlets = append(c.inlets, i)
	return nil
}

// ownExchange makes Close call end, which closes an exchange of calls.
func (c *Conn) ownExchange(end func(ctx context.Context) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return errClosed
	}
	c.calls = append(c.calls, end)
	return nil
}
