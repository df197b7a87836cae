package main

import (
	"net/http"
	"sync/atomic"
	"time"
)

// state is the state of a connection. It decides which stage a signal leads to.
type state uint8

const (
	reading   state = iota // an answer that the socket did not accept at once
	writing                // an answer that the socket did not accept at once
	lingering              // after the last answer: further bytes are discarded
)

// awaited is the kind of bytes that a reading connection waits for. Each kind
// has a time limit of its own, which starts when the wait does.
type awaited uint8

const (
	nextRequest awaited = iota // nothing of it has arrived, except perhaps empty lines
	restOfHead
	restOfBody
)

// awaited returns the bytes that the connection waits for, when everything that
// it has sent is in c.in.
func (c *conn) awaited() awaited {
	switch {
	case c.body > 0:
		return restOfBody
	case len(c.in) > 0 && string(c.in) != "\r": // "\r" may become an empty line
		return restOfHead
	default:
		return nextRequest
	}
}

// await makes the connection wait for something else, with its time limit.
func (c *conn) await(what awaited, l limits, now time.Duration) {
	c.awaits = what
	if what == nextRequest {
		c.expires(now + l.idle)
	} else {
		c.expires(now + l.request)
	}
}

// conn is a connection, and the command that passes through the stages: it
// carries one request and its answer at a time. The next request is parsed when
// the answer to the previous one is written. That keeps the answers in order
// and limits what a connection can hold.
//
// Only its owner may access its fields (see signals). They are reused for the
// next client.
type conn struct {
	tag      tag // of its events; only the source changes and reads the generation
	signals  signals
	deadline atomic.Int64 // on the server's clock; any goroutine may read it

	sock   socket
	state  state
	excess bool    // one too many: its first request is answered with 503
	awaits awaited // if the state is reading; the deadline is its limit
	in     []byte  // read, but not parsed yet
	body   int64   // bytes of the last request's body that are still to be skipped
	thrown int     // bytes discarded since the last answer

	req  *http.Request
	path string // the clean path of the request
	ans  answer
}

// open assigns the connection to a new client. Events of earlier clients no
// longer reach it.
func (c *conn) open(s socket, excess bool, deadline time.Duration) {
	c.tag.generation++
	c.sock, c.excess, c.state = s, excess, reading
	c.awaits, c.in, c.body, c.thrown = nextRequest, nil, 0, 0
	c.forget()
	c.expires(deadline)
	c.signals.begin()
}

// forget drops the request and its answer.
func (c *conn) forget() {
	c.ans.close()
	c.req, c.path, c.ans = nil, "", answer{}
}

// reply sets the answer. The consequences of the request for the connection
// stay.
func (c *conn) reply(a answer) {
	a.last, a.keep, a.unsure = a.last || c.ans.last, c.ans.keep, a.unsure || c.ans.unsure
	c.ans = a
}

func (c *conn) expires(at time.Duration) { c.deadline.Store(int64(at)) }

func (c *conn) expired(now time.Duration) bool { return int64(now) >= c.deadline.Load() }

// keep keeps bytes that are not parsed yet. They may be part of the bytes that
// are kept already.
func (c *conn) keep(rest []byte) {
	if len(rest) == 0 {
		c.in = nil // an idle connection holds no memory
		return
	}
	c.in = append(c.in[:0], rest...)
}

// skip returns how many of n bytes belong to the last request's body.
func (c *conn) skip(n int) int {
	k := min(c.body, int64(n))
	c.body -= k
	return int(k)
}
