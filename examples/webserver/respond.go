package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/golda-dev/golda/behaviour"
)

// respond is the last stage: it writes an answer, as far as the socket accepts
// it at once. It does not wait for a slow client: the connection is parked
// until the socket accepts more.
type respond struct {
	*server
	more *port // back to itself: a long answer lets others go first now and then
	next *port // to parse: there are bytes to read

	head  []byte
	piece []byte
	parts [][]byte
	date  []byte
	dated int64
}

// The size of the pieces in which a file is read, and how many of them are sent
// in a row.
const (
	pieceSize = 64 << 10
	inARow    = 4
)

func (s *server) newRespond(more, next *port) behaviour.Factory[*conn] {
	return func() behaviour.Behaviour[*conn] { return &respond{server: s, more: more, next: next} }
}

// HandleCommand writes an answer, or a part of it.
func (r *respond) HandleCommand(_ context.Context, c *conn) behaviour.Outcome {
	if !c.ans.begun {
		r.begin(c)
	}
	for range inARow {
		switch err := r.write(c); {
		case errors.Is(err, errAgain):
			if out, done := r.wait(c); done {
				return out
			}
		case err != nil:
			return r.hangUp(c)
		case c.ans.done():
			return r.finish(c)
		}
	}
	return behaviour.Forward(r.more, c)
}

// begin makes the head of an answer.
func (r *respond) begin(c *conn) {
	if r.draining() {
		c.ans.last = true
	}
	if c.req != nil && c.req.Method == http.MethodHead {
		c.ans.bare()
	}
	c.ans.begun = true
	c.ans.taken = r.now()
	c.expires(c.ans.taken + r.limits.write)
	r.head = c.ans.appendHead(r.head[:0], r.date1123())
	c.ans.head = r.head
	c.state = writing
}

// date1123 returns the time in HTTP's format, formatted once a second.
func (r *respond) date1123() []byte {
	now := time.Now()
	if s := now.Unix(); s != r.dated {
		r.dated, r.date = s, now.UTC().AppendFormat(r.date[:0], http.TimeFormat)
	}
	return r.date
}

// done reports whether the whole answer is written.
func (a *answer) done() bool { return len(a.head)+len(a.text) == 0 && (a.file == nil || a.left == 0) }

// write writes the next piece of an answer. It returns errAgain if the socket
// did not accept all of it.
func (r *respond) write(c *conn) error {
	piece, err := r.load(&c.ans)
	if err != nil {
		return err
	}
	r.parts = append(r.parts[:0], c.ans.head, piece)
	want := len(c.ans.head) + len(piece)
	n, err := c.sock.write(r.parts)
	r.parts[0], r.parts[1] = nil, nil
	if err == nil {
		r.stats.sent.Add(uint64(n))
		c.ans.advance(n)
		c.ans.moved = true
	}
	if err == nil && n < want {
		err = errAgain
	}
	return err
}

// load returns the next piece of the body.
func (r *respond) load(a *answer) ([]byte, error) {
	if a.file == nil {
		return a.text, nil
	}
	if r.piece == nil {
		r.piece = make([]byte, pieceSize)
	}
	n, err := a.file.ReadAt(r.piece[:min(a.left, pieceSize)], a.off)
	if errors.Is(err, io.EOF) && int64(n) == a.left {
		err = nil
	}
	if err != nil { // the file has become shorter; its length was announced, so only the end of the connection can report it
		return nil, fmt.Errorf("a file has changed: %w", err)
	}
	return r.piece[:n], nil
}

// advance records that n bytes have been written.
func (a *answer) advance(n int) {
	head := min(n, len(a.head))
	a.head = a.head[head:]
	n -= head
	if a.file == nil {
		a.text = a.text[n:]
		return
	}
	a.off += int64(n)
	a.left -= int64(n)
}

// looks is how often a parked answer is tried again within the time in which a
// client may accept nothing. The system signals that a socket is writable only
// when it has a good deal of space; a try also shows what a client accepted
// before.
const looks = 16

// wait parks the connection until the socket is writable, or ends it if the
// client accepts nothing.
func (r *respond) wait(c *conn) (out behaviour.Outcome, done bool) {
	c.ans.head = bytes.Clone(c.ans.head) // the worker needs its buffer for other answers
	now := r.now()
	if c.ans.moved {
		c.ans.moved, c.ans.taken = false, now
	}
	end := c.ans.taken + r.limits.write
	c.expires(min(end, now+r.limits.write/looks))
	if c.signals.has(late) {
		c.signals.drop(late)
		if now >= end || r.cutting() {
			return r.hangUp(c), true
		}
	}
	if c.signals.park(writable | late) {
		return behaviour.OK(nil), true
	}
	c.signals.drop(writable) // the signal may be an old one
	return out, false
}

// finish continues with the next request, or ends the connection.
func (r *respond) finish(c *conn) behaviour.Outcome {
	r.stats.count(c.ans.status)
	last, unsure := c.ans.last, c.ans.unsure
	c.forget()
	if last {
		return r.end(c, unsure)
	}
	c.state = reading
	if c.body > 0 {
		c.await(restOfBody, r.limits, r.now())
	} else {
		c.await(nextRequest, r.limits, r.now())
	}
	if len(c.in) > 0 {
		return behaviour.Forward(r.next, c)
	}
	if c.signals.park(readable | hungUp | late) {
		return behaviour.OK(nil)
	}
	return behaviour.Forward(r.next, c)
}

// end closes a connection after its last answer: at once, unless the client may
// have sent bytes that were not read. Unread bytes would make the kernel reset
// the connection, and the client might lose the answer.
func (r *respond) end(c *conn, unsure bool) behaviour.Outcome {
	if !unsure && len(c.in) == 0 && c.body == 0 && !c.signals.has(readable) {
		return r.hangUp(c)
	}
	c.sock.endWrite()
	c.state, c.thrown = lingering, 0
	c.keep(nil)
	c.expires(r.now() + r.limits.linger)
	return behaviour.Forward(r.next, c)
}

func (r *respond) hangUp(c *conn) behaviour.Outcome {
	r.close(c)
	return behaviour.OK(nil)
}
