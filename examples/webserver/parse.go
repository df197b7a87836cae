package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/golda-dev/golda/behaviour"
)

// parse is the first stage: it reads the bytes that a client has sent so far,
// and parses a request.
//
// Each worker has an instance with a buffer. A connection has no buffer of its
// own, except for the rest of a read that held more than one request, or less.
type parse struct {
	*server
	next    *port // requests to be served
	refused *port // requests that are answered at once

	parser *parser
	buf    []byte
	// data has the bytes from the connection: within buf, or kept from an
	// earlier read.
	data []byte
}

func (s *server) newParse(next, refused *port) behaviour.Factory[*conn] {
	return func() behaviour.Behaviour[*conn] {
		return &parse{
			server: s, next: next, refused: refused,
			parser: newParser(s.limits), buf: make([]byte, s.limits.head+16<<10),
		}
	}
}

// HandleCommand reads until there is a request, or nothing more to read.
func (p *parse) HandleCommand(_ context.Context, c *conn) behaviour.Outcome {
	if c.state == lingering {
		return p.linger(c)
	}
	p.data = c.in
	for {
		if out, done := p.take(c); done {
			return out
		}
		switch err := p.fill(c); {
		case err == nil:
		case !errors.Is(err, errAgain): // the client has closed the connection
			return p.hangUp(c)
		default:
			if out, done := p.wait(c); done {
				return out
			}
		}
	}
}

// take takes a request from the bytes that were read and forwards it.
func (p *parse) take(c *conn) (out behaviour.Outcome, done bool) {
	p.data = p.data[c.skip(len(p.data)):]
	if c.body > 0 {
		return out, false
	}
	n, req, err := p.parser.next(p.data)
	p.data = p.data[n:]
	if req == nil && err == nil {
		return out, false
	}
	c.keep(p.data)
	return p.send(c, req, err), true
}

// send forwards a request to the cache, or to be answered at once.
func (p *parse) send(c *conn, req *http.Request, err *refusal) behaviour.Outcome {
	if err == nil {
		c.path, err = target(req)
	}
	if c.excess {
		err = tooMany()
	}
	c.req = req
	if err != nil {
		c.reply(err.answer())
		p.frame(c)
		return behaviour.Forward(p.refused, c)
	}
	p.frame(c)
	return behaviour.Forward(p.next, c)
}

// tooMany refuses a client because there are too many connections.
func tooMany() *refusal {
	return &refusal{
		status: http.StatusServiceUnavailable, words: "too many connections", extra: "Retry-After: 1\r\n", final: true,
	}
}

// frame records the consequences of a request beyond its answer: the body that
// follows, and whether the connection stays open.
func (p *parse) frame(c *conn) {
	req := c.req
	if req == nil {
		return
	}
	c.body = max(req.ContentLength, 0)
	// A client that waits for 100 Continue gets the last answer instead, and
	// may then send the body or not: the next bytes may be a body or a request.
	waits := expects(req) && c.body > 0
	c.ans.last = c.ans.last || req.Close || waits
	c.ans.unsure = c.ans.unsure || waits
	c.ans.keep = !req.ProtoAtLeast(1, 1)
}

// fill reads more bytes, behind the bytes that are there. It takes the signals
// before it reads, and puts them back only if it has read something and there
// may be more. So a signal without bytes costs one read.
func (p *parse) fill(c *conn) error {
	woken := c.signals.take(readable | hungUp)
	if woken == 0 {
		return errAgain
	}
	have := copy(p.buf, p.data)
	n, err := c.sock.read(p.buf[have:])
	if n > 0 && (have+n == len(p.buf) || woken&hungUp != 0) { // there may be more, or the end of the bytes is still to be read
		c.signals.raise(woken)
	}
	p.data = p.buf[:have+n]
	return err
}

// wait parks the connection until there are bytes to read, or ends it if its
// time limit has passed.
func (p *parse) wait(c *conn) (out behaviour.Outcome, done bool) {
	c.keep(p.data)
	p.data = c.in
	if what := c.awaited(); what != c.awaits {
		c.await(what, p.limits, p.now())
	}
	if c.signals.has(late) {
		c.signals.drop(late)
		if p.over(c) {
			return p.giveUp(c), true
		}
	}
	if c.signals.park(readable | hungUp | late) {
		return behaviour.OK(nil), true
	}
	return out, false
}

// over reports whether a connection has waited long enough.
func (p *parse) over(c *conn) bool {
	return c.expired(p.now()) || p.stopping(c.awaits != nextRequest)
}

// giveUp ends a connection whose time limit has passed.
func (p *parse) giveUp(c *conn) behaviour.Outcome {
	if c.awaits != restOfHead { // there was no request
		return p.hangUp(c)
	}
	return p.send(c, nil, &refusal{status: http.StatusRequestTimeout, words: "the request took too long", final: true})
}

// linger discards the bytes after a last answer: if the connection were closed
// with unread bytes, the client might never see the answer.
func (p *parse) linger(c *conn) behaviour.Outcome {
	for {
		if c.signals.has(late) {
			c.signals.drop(late)
			if c.expired(p.now()) || p.cutting() {
				return p.hangUp(c)
			}
		}
		p.data = nil
		err := p.fill(c)
		c.thrown += len(p.data)
		switch {
		case err == nil && c.thrown < enough:
		case !errors.Is(err, errAgain):
			return p.hangUp(c)
		case c.signals.park(readable | hungUp | late):
			return behaviour.OK(nil)
		}
	}
}

// enough is how many bytes are discarded for a client that was refused.
const enough = 256 << 10

// hangUp closes the connection, which ends the command.
func (p *parse) hangUp(c *conn) behaviour.Outcome {
	p.close(c)
	return behaviour.OK(nil)
}
