package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/sync/singleflight"

	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/stage"
)

// The processes that run a stage say so on a subject of core NATS, once a
// second and when a caller asks. Nothing depends on this knowledge being right:
// a call to a process that has gone fails.

// callsSubject is the subject on which the processes that answer calls of an
// inlet's stage announce themselves. A caller that knows no such process sends
// a question to the same subject with askedSuffix; if no process is there, the
// server answers it.
func callsSubject(inlet string) string { return "golda.calls." + inlet }

const askedSuffix = ".ask"

// callee is a process that runs the stage, as one that calls it knows it.
type callee struct {
	node string
	name string // of the process, among the processes of the node

	heard time.Time // when it announced itself last
	calls int       // calls of this process that it has not answered
}

// callees are the processes that run one stage.
type callees struct {
	nc      *natsgo.Conn
	denials *denials
	inlet   string
	silence time.Duration // after which a process is not called any more
	asks    singleflight.Group

	mu    sync.Mutex // guards the rest
	sub   *natsgo.Subscription
	known map[string]*callee
}

// errNone is why no process can be called. The command was handled by none.
var errNone error = noneError{}

// noneError is the error of a call of a stage that no process runs.
type noneError struct{}

func (noneError) Error() string   { return "no process of that name runs the stage" }
func (noneError) Unwrap() []error { return []error{stage.ErrNotRunning, transport.ErrUnreachable} }

// pick returns the process with the fewest calls of this one, and counts a
// call: done must be called in the end. It passes over processes that have
// refused the call. If no other is known, it asks the server.
func (c *callees) pick(ctx context.Context, refused []string) (*callee, error) {
	if err := c.listen(); err != nil {
		return nil, err
	}
	if to := c.least(refused); to != nil {
		return to, nil
	}
	asked := c.asks.DoChan("", func() (any, error) { return nil, c.ask() })
	select {
	case r := <-asked:
		if r.Err != nil {
			return nil, r.Err
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return c.await(ctx, refused)
}

// await calls least after a question, until it returns a process. The first
// answer may come from a process that is leaving or has refused the call, and
// the others come a moment later.
func (c *callees) await(ctx context.Context, refused []string) (*callee, error) {
	const look = 10 * time.Millisecond
	for since := time.Now(); ; {
		to := c.least(refused)
		switch {
		case to != nil:
			return to, nil
		case time.Since(since) > c.silence/6: // half a heartbeat
			return nil, errNone
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// listen hears of processes from now on.
func (c *callees) listen() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sub == nil {
		c.known = map[string]*callee{}
		c.sub, err = c.nc.Subscribe(callsSubject(c.inlet), func(m *natsgo.Msg) { c.hear(m.Data) })
	}
	return err
}

// ask asks which processes there are. The first answer is enough; the others
// are heard, too.
func (c *callees) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.silence)
	defer cancel()
	subject := callsSubject(c.inlet) + askedSuffix
	var m *natsgo.Msg
	err := c.denials.unless(ctx, func(now *denial) bool { return now.exact == subject }, func(ctx context.Context) (err error) {
		m, err = c.nc.RequestWithContext(ctx, subject, nil)
		return err
	})
	_, denied := errors.AsType[*denial](err)
	switch {
	case err == nil:
		c.hear(m.Data)
		return nil
	case errors.Is(err, natsgo.ErrNoResponders):
		return errNone
	case denied:
		return fmt.Errorf("%w: %w", transport.ErrUnreachable, err)
	case !errors.Is(err, context.DeadlineExceeded) || !c.nc.IsConnected():
		return fmt.Errorf("%w: %w", errAway, err)
	default:
		return fmt.Errorf("%w: the processes that run it do not answer", transport.ErrUnreachable)
	}
}

// forbidden returns the last error of a connection if it is another one than
// before, and says that the server does not permit a subject of calls;
// otherwise nil.
func forbidden(nc *natsgo.Conn, before error) error {
	err := nc.LastError()
	if err != before && errors.Is(err, natsgo.ErrPermissionViolation) && strings.Contains(err.Error(), `"`+callsSubject("")) { //nolint:errorlint // the same one
		return err
	}
	return nil
}

// What a process says of itself, before its name.
const (
	saysThere  = '+'
	saysLeaves = '-'
)

// hear notes what a process says of itself.
func (c *callees) hear(said []byte) {
	if len(said) == 0 {
		return
	}
	name := string(said[1:])
	node, process, ok := strings.Cut(name, ".")
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !ok:
	case said[0] == saysLeaves:
		delete(c.known, name)
	case c.known[name] == nil:
		c.known[name] = &callee{node: node, name: process, heard: time.Now()}
	default:
		c.known[name].heard = time.Now()
	}
}

// least returns the process with the fewest calls among the processes that have
// not refused this call, and counts one more for it; nil if none is known.
func (c *callees) least(refused []string) *callee {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(c.known, func(_ string, p *callee) bool { return now.Sub(p.heard) > c.silence })
	var fewest []*callee
	for _, p := range c.known {
		if slices.Contains(refused, p.name) || len(fewest) > 0 && p.calls > fewest[0].calls {
			continue
		}
		if len(fewest) > 0 && p.calls < fewest[0].calls {
			fewest = fewest[:0]
		}
		fewest = append(fewest, p)
	}
	if len(fewest) == 0 {
		return nil
	}
	to := fewest[rand.IntN(len(fewest))]
	to.calls++
	return to
}

// done counts that a call has ended. If the process is gone, it is not called
// until it says that it is there.
func (c *callees) done(to *callee, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to.calls--
	if name := to.node + "." + to.name; gone && c.known[name] == to {
		delete(c.known, name)
	}
}
