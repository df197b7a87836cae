package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// A server does not answer a message that it does not permit. It sends an error
// to the connection instead, which nats.go gives to the error handler. A Conn
// notes these errors, so that the errors of its methods, the logs of its inlets
// and Healthy name the subject that the user may not use.

// denial is a permission that the connection lacks. It is no overload.
type denial struct {
	subject   string // with > or * in the place of words that differ between messages
	exact     string // as the server has named it
	subscribe bool   // whether the connection may not subscribe, rather than publish
	answers   bool   // whether it cuts the connection off from answers
	at        time.Time
	err       error // of nats.go
	known     bool  // whether the kind was noted before
	last      bool  // whether no other one is logged until the next connect
}

func (d *denial) Error() string {
	return fmt.Sprintf("the server does not permit %q: %v", d.subject, d.err)
}
func (d *denial) Unwrap() error { return d.err }

// mostDenials is how many kinds of denials are noted, and logged between two
// connects.
const mostDenials = 64

// mostRecent is how many denials are noted with their exact subjects. A call
// looks for the denial of its own message, which came a moment ago.
const mostRecent = 256

// denials are the permissions that the connection has lacked since it was
// connected last.
type denials struct {
	nc *natsgo.Conn

	mu       sync.Mutex // guards the rest
	noted    []*denial  // the latest of each kind, the newest kind last
	recent   []*denial  // the latest of all kinds, in the order of their times
	logged   int        // how many were new, since the last connect
	hears    map[int]func(*denial)
	listener int // the number of the next one
}

// watch notes the denials of a connection from now on. It calls the error
// handler and the reconnect handler that the connection had before, too.
func watch(nc *natsgo.Conn) *denials {
	d := &denials{nc: nc, hears: map[int]func(*denial){}}
	onError, onReconnect := nc.ErrorHandler(), nc.ReconnectHandler()
	nc.SetErrorHandler(func(nc *natsgo.Conn, sub *natsgo.Subscription, err error) {
		d.note(err)
		if onError != nil {
			onError(nc, sub, err)
		}
	})
	nc.SetReconnectHandler(func(nc *natsgo.Conn) {
		d.forget() // the permissions may be others now
		if onReconnect != nil {
			onReconnect(nc)
		}
	})
	return d
}

// named matches the subject in the text of the server's error.
var named = regexp.MustCompile(`(Publish to|Subscription to|Publish with Reply of) "([^"]+)"`)

// note notes an error of the server, if it is a denial, and calls the
// listeners.
func (d *denials) note(err error) {
	if !errors.Is(err, natsgo.ErrPermissionViolation) {
		return
	}
	now := &denial{exact: "a subject", err: err}
	if m := named.FindStringSubmatch(err.Error()); m != nil {
		now.subscribe, now.exact = m[1] == "Subscription to", m[2]
	}
	now.subject, now.answers = pattern(now.exact), d.isAnswer(now)
	d.mu.Lock()
	now.at = time.Now()
	if len(d.recent) == mostRecent {
		d.recent = slices.Delete(d.recent, 0, 1)
	}
	d.recent = append(d.recent, now)
	d.addLocked(now)
	hears := slices.Collect(maps.Values(d.hears))
	d.mu.Unlock()
	for _, hear := range hears {
		hear(now)
	}
}

// addLocked notes a denial in the place of one of its kind, or of the oldest if
// there are too many kinds.
func (d *denials) addLocked(now *denial) {
	if i := slices.IndexFunc(d.noted, now.sameKind); i >= 0 {
		now.known = true
		d.noted[i] = now
		return
	}
	d.logged++
	now.known, now.last = d.logged > mostDenials, d.logged == mostDenials
	if len(d.noted) == mostDenials {
		d.noted = slices.Delete(d.noted, 0, 1)
	}
	d.noted = append(d.noted, now)
}

func (d *denial) sameKind(other *denial) bool {
	return d.subject == other.subject && d.subscribe == other.subscribe && d.answers == other.answers
}

// forget forgets all denials.
func (d *denials) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noted, d.recent, d.logged = nil, nil, 0
}

// listen calls a function for each denial from now on, until stop is called.
func (d *denials) listen(hear func(*denial)) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.listener
	d.listener++
	d.hears[n] = hear
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.hears, n)
	}
}

// all returns all denials as one error, the newest kind first, or nil if there
// are none.
func (d *denials) all() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, now := range slices.Backward(d.noted) {
		errs = append(errs, now)
	}
	return errors.Join(errs...)
}

// about returns the denial of publishing to a subject, if it came after a time,
// or of the subjects on which the server answers this connection, or nil if
// there is none. The connection subscribes to its inboxes once, so the denial
// of an inbox may be older.
func (d *denials) about(subject string, after time.Time) *denial {
	subject = pattern(subject)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, now := range d.noted {
		if !now.subscribe && now.subject == subject && now.at.After(after) || now.answers {
			return now
		}
	}
	return nil
}

// isAnswer reports whether a denial cuts this connection off from answers. The
// inboxes of all processes of a user have one prefix, and this connection
// subscribes to its own inboxes only: nats.go does so for all requests at once,
// and package jetstream for all messages that are published without waiting,
// with a wildcard for the request. Another subscription below the prefix belongs to
// the program itself, or to one consumer. A denial of publishing to an inbox
// concerns the answers to another process.
func (d *denials) isAnswer(now *denial) bool {
	prefix := d.nc.Opts.InboxPrefix
	if prefix == "" {
		prefix = strings.TrimSuffix(natsgo.InboxPrefix, ".")
	}
	return now.subscribe && strings.HasPrefix(now.exact, prefix+".") && strings.HasSuffix(now.exact, ".*")
}

// silenced returns the denial since a message was sent, if the error of sending
// it says that the server has not answered. A server that is away denies
// nothing.
func (d *denials) silenced(err error, subject string, sent time.Time) *denial {
	if !errors.Is(explain(err), ErrAway) || !d.nc.IsConnected() {
		return nil
	}
	return d.about(subject, sent)
}

// ask calls f, which sends a request and waits for the answer. If the server
// denies a subject for which concerns returns true, or a subject of answers,
// ask cancels the context of f and returns the denial: there will be no answer.
func (d *denials) ask(ctx context.Context, concerns func(subject string) bool, f func(ctx context.Context) error) error {
	return d.unless(ctx, func(now *denial) bool { return concerns(now.subject) }, f)
}

// unless is ask with a predicate of denials.
func (d *denials) unless(ctx context.Context, concerns func(now *denial) bool, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer d.listen(func(now *denial) {
		if concerns(now) || now.answers {
			cancel(now)
		}
	})()
	err := f(ctx)
	if now, denied := errors.AsType[*denial](context.Cause(ctx)); err != nil && denied {
		return now
	}
	return err
}

// unlessDenied calls f, which waits for the answer to a message that was
// published to a subject at a time. If the server denies that subject, or a
// subject of answers, unlessDenied cancels the context of f and returns the
// denial.
func (d *denials) unlessDenied(ctx context.Context, subject string, sent time.Time, f func(ctx context.Context) error) error {
	concerns := func(now *denial) bool { return !now.subscribe && now.exact == subject }
	return d.unless(ctx, concerns, func(ctx context.Context) error {
		if now := d.since(sent, concerns); now != nil {
			return now
		}
		if now := d.silent(); now != nil {
			return now
		}
		return f(ctx)
	})
}

// since returns the latest denial that came after a time and for which match
// returns true, or nil.
func (d *denials) since(after time.Time, match func(now *denial) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, now := range slices.Backward(d.recent) {
		if !now.at.After(after) {
			break
		}
		if match(now) {
			return now
		}
	}
	return nil
}

// silent returns the denial that cuts this connection off from answers, if
// there is one, or nil.
func (d *denials) silent() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, now := range d.noted {
		if now.answers {
			return now
		}
	}
	return nil
}

// pattern returns a subject with a wildcard in the place of the words that
// differ between messages of one kind.
func pattern(subject string) string {
	words := strings.Split(subject, ".")
	cut := func(n int, end string) string {
		if len(words) <= n {
			return subject
		}
		return strings.Join(words[:n], ".") + end
	}
	switch {
	case strings.HasPrefix(subject, "$JS.ACK."): // stream and consumer, and which delivery
		return cut(4, ".>")
	case strings.HasPrefix(subject, "golda.dead."), strings.HasPrefix(subject, "golda.back."),
		strings.HasPrefix(subject, "golda.inlet.") && len(words) < 5:
		return cut(3, ".*")
	case strings.HasPrefix(subject, "golda.inlet."): // the lane of a job, and the hash of its ID or key
		return cut(3, ".>")
	case strings.HasPrefix(subject, "golda.later."):
		return cut(3, ".>")
	case strings.HasPrefix(subject, "$KV."):
		return cut(2, ".>")
	case strings.HasPrefix(subject, "$JS.API.DIRECT.GET."): // stream and subject
		return cut(5, ".>")
	case strings.HasPrefix(subject, "_INBOX"):
		return cut(1, ".>")
	case strings.HasPrefix(subject, "golda.node.") && len(words) == 4: // receiver and sender
		return "golda.node.*." + words[3]
	default:
		return subject
	}
}

// needs reports whether the inlet needs a subject.
func (t *tracker) needs(subject string) bool { return t.names.has(subject) }

// denied logs a denial, unless its kind was noted before. Either the inlet
// needs the subject, or another part of the program that has the connection
// does.
func (t *tracker) denied(now *denial, ofInlet bool) {
	switch {
	case now.known:
	case ofInlet:
		logDenied(t.log, "the server does not permit what the inlet needs; permit the subject to the user of this connection", now)
	default:
		logDenied(t.plain, "the server does not permit what this program needs; permit the subject to the user of this connection", now)
	}
}

// logDenied logs a denial. Of the last one the line says so.
func logDenied(log *slog.Logger, text string, now *denial) {
	about := []any{"subject", now.subject, "reason", now.err}
	if now.last {
		about = append(about, "further", "denials of other subjects are not logged until the connection is made again")
	}
	log.Error(text, about...)
}
