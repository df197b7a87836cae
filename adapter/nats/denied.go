package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	natsgo "github.com/nats-io/nats.go"
)

// A server does not answer a message that it does not permit. It sends an error
// to the connection instead, which nats.go gives to the error handler. A Conn
// notes these errors, so that the errors of its methods, the logs of its inlets
// and Healthy name the subject that the user may not use.

// denial is a permission that the connection lacks. It is no overload.
type denial struct {
	subject string // with > or * in the place of words that differ between messages
	err     error  // of nats.go
	known   bool   // whether the subject was noted before
}

func (d *denial) Error() string {
	return fmt.Sprintf("the server does not permit %q: %v", d.subject, d.err)
}
func (d *denial) Unwrap() error { return d.err }

// mostDenials is how many subjects are noted.
const mostDenials = 64

// denials are the permissions that the connection has lacked since it was connected last.
type denials struct {
	nc *natsgo.Conn

	mu       sync.Mutex // guards the rest
	of       map[string]*denial
	hears    map[int]func(*denial)
	listener int // the number of the next one
}

// watch notes the denials of a connection from now on. It calls the error
// handler and the reconnect handler that the connection had before, too.
func watch(nc *natsgo.Conn) *denials {
	d := &denials{nc: nc, of: map[string]*denial{}, hears: map[int]func(*denial){}}
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
var named = regexp.MustCompile(`(?:Publish to|Subscription to|Publish with Reply of) "([^"]+)"`)

// note notes an error of the server, if it is a denial, and calls the listeners.
func (d *denials) note(err error) {
	if !errors.Is(err, natsgo.ErrPermissionViolation) {
		return
	}
	subject := "a subject"
	if m := named.FindStringSubmatch(err.Error()); m != nil {
		subject = m[1]
	}
	now := &denial{subject: pattern(subject), err: err}
	d.mu.Lock()
	_, known := d.of[now.subject]
	if len(d.of) < mostDenials {
		d.of[now.subject] = now
	}
	now.known = known
	hears := slices.Collect(maps.Values(d.hears))
	d.mu.Unlock()
	for _, hear := range hears {
		hear(now)
	}
}

// forget forgets all denials.
func (d *denials) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.of)
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

// all returns all denials as one error, or nil if there are none.
func (d *denials) all() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, subject := range slices.Sorted(maps.Keys(d.of)) {
		errs = append(errs, d.of[subject])
	}
	return errors.Join(errs...)
}

// about returns the denial of a subject, or of the subjects on which the server
// answers this connection, or nil if there is none.
func (d *denials) about(subject string) *denial {
	subject = pattern(subject)
	d.mu.Lock()
	defer d.mu.Unlock()
	for of, now := range d.of {
		if of == subject || d.isAnswer(of) {
			return now
		}
	}
	return nil
}

// isAnswer reports whether the server sends answers for this connection to a
// subject.
func (d *denials) isAnswer(subject string) bool {
	prefix := d.nc.Opts.InboxPrefix
	if prefix == "" {
		prefix = strings.TrimSuffix(natsgo.InboxPrefix, ".")
	}
	return strings.HasPrefix(subject, prefix+".")
}

// ask calls f, which sends a request and waits for the answer. If the server
// denies a subject for which concerns returns true, or a subject of answers,
// ask cancels the context of f and returns the denial: there will be no answer.
func (d *denials) ask(ctx context.Context, concerns func(subject string) bool, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer d.listen(func(now *denial) {
		if concerns(now.subject) || d.isAnswer(now.subject) {
			cancel(now)
		}
	})()
	err := f(ctx)
	if now, denied := errors.AsType[*denial](context.Cause(ctx)); err != nil && denied {
		return now
	}
	return err
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
	case strings.HasPrefix(subject, "golda.dead."), strings.HasPrefix(subject, "golda.back."), strings.HasPrefix(subject, "golda.inlet."):
		return cut(3, ".*")
	case strings.HasPrefix(subject, "$KV."):
		return cut(2, ".>")
	default:
		return subject
	}
}

// needs reports whether the inlet needs a subject.
func (t *tracker) needs(subject string) bool { return t.names.has(subject) }

// denied logs a denial, unless its subject was noted before.
func (t *tracker) denied(now *denial) {
	if !now.known {
		t.log.Error("the server does not permit what the inlet needs; permit the subject to the user of this connection",
			"subject", now.subject, "reason", now.err)
	}
}
