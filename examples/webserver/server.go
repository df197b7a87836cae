package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// server is the state that all stages share, and the source of the pipeline:
// one goroutine that waits for all connections and submits those with something
// to do to a stage.
type server struct {
	limits limits
	site   fs.FS
	cache  *cache
	stats  stats
	born   time.Time

	line           *pipeline.Pipeline
	entry          *stage.Stage[*conn] // for connections with bytes to read
	exit           *stage.Stage[*conn] // for answers that can be continued
	poller         *poller
	acceptor       acceptor
	acceptorClosed bool // only the source uses it
	missed         bool // a connection could not be accepted, perhaps because there was no file descriptor

	stop atomic.Bool  // no new requests
	cut  atomic.Int64 // when the time to drain ends, on the server's clock; 0: not draining

	mu    sync.Mutex // guards the fields below
	slots []*conn    // all slots; only the source adds to them, and may read them without the lock
	free  []int
}

func newServer(l limits, site fs.FS, cacheBytes int64) *server {
	return &server{
		limits: l, site: site, cache: newCache(cacheBytes, l.fresh),
		born: time.Now(), slots: make([]*conn, 0, l.connections+l.spare),
	}
}

// now returns the time on the server's clock: the time since it was made.
func (s *server) now() time.Duration { return time.Since(s.born) }

// draining reports whether each answer is the last of its connection.
func (s *server) draining() bool { return s.stop.Load() }

// stopping reports whether a connection that waits for a request must stop
// waiting.
func (s *server) stopping(partial bool) bool { return s.draining() && !partial || s.cutting() }

// cutting reports whether the time to drain is over.
func (s *server) cutting() bool {
	cut := s.cut.Load()
	return cut != 0 && int64(s.now()) >= cut
}

// drain accepts no more requests, and limits the time for those in progress.
func (s *server) drain(patience time.Duration) {
	s.cut.CompareAndSwap(0, max(1, int64(s.now()+patience)))
	s.stop.Store(true)
}

// tag identifies the subject of an event: a connection, by its slot and by its
// generation, which counts the connections that have used the slot. The
// generation is needed because events come in batches: when the source handles
// an event, a stage may have closed its connection, and an earlier event of the
// batch may have put a new one into the slot.
type tag struct{ slot, generation int32 }

// acceptorTag returns the tag of the acceptor.
func acceptorTag() tag { return tag{slot: -1} }

// open prepares to serve at a listener.
func (s *server) open(l net.Listener) (err error) {
	if s.acceptor, err = newAcceptor(l); err != nil {
		return err
	}
	if s.poller, err = newPoller(); err != nil {
		return err
	}
	if err := s.poller.addAcceptor(s.acceptor, acceptorTag()); err != nil {
		s.poller.close()
		return err
	}
	return nil
}

// serve is the source. It returns when the server was asked to drain and the
// last connection has ended, or when it cannot watch the connections any more.
func (s *server) serve() error {
	defer s.poller.close()
	defer s.closeAcceptor()
	for tick := s.now(); ; {
		if now := s.now(); now >= tick {
			if s.round(now); s.done() {
				return nil
			}
			tick = now + s.limits.tick
			if err := s.poller.until(s.born.Add(tick)); err != nil {
				return err
			}
		}
		n, err := s.poller.wait()
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		for i := range n {
			s.handle(s.poller.event(i))
		}
	}
}

// handle handles an event. It ignores an event of a connection that has left
// its slot to another.
func (s *server) handle(of tag, what sign) {
	if of == acceptorTag() {
		s.acceptAll()
		return
	}
	if c := s.slots[of.slot]; c.tag == of && c.signals.raise(what) {
		s.send(c)
	}
}

// send submits a connection to the stage that it waits for. Every stage has a
// slot for every connection, so send never waits.
func (s *server) send(c *conn) {
	to := s.entry
	if c.state == writing {
		to = s.exit
	}
	if to.Submit(context.Background(), c) != nil { // the pipeline has stopped
		s.close(c)
	}
}

// round checks time limits, and retries connections that could not be accepted.
func (s *server) round(now time.Duration) {
	if s.draining() {
		s.closeAcceptor()
	} else if s.missed {
		s.acceptAll()
	}
	for _, c := range s.slots {
		if (s.draining() || c.expired(now)) && c.signals.raise(late) {
			s.send(c)
		}
	}
}

// acceptAll accepts all waiting connections.
func (s *server) acceptAll() {
	for s.missed = false; !s.acceptorClosed; {
		sock, err := s.acceptor.accept()
		if err != nil {
			s.missed = !errors.Is(err, errAgain)
			return
		}
		s.admit(sock)
	}
}

// admit gives a new connection a slot.
func (s *server) admit(sock socket) {
	s.stats.accepted.Add(1)
	c, excess := s.slot()
	patience := s.limits.request
	if excess {
		s.stats.refused.Add(1)
		patience = s.limits.linger // other connections may need the slot for the same answer
	}
	if c == nil { // not even a slot in which to wait until the refusal is read
		_, _ = sock.write([][]byte{tooMany().whole()})
		sock.close()
		return
	}
	c.open(sock, excess, s.now()+patience)
	if s.poller.add(sock, c.tag) != nil {
		s.close(c)
	}
}

// slot returns a connection to use, or nil if there is none. excess reports
// whether the connection is only accepted to be answered that there are too
// many.
func (s *server) slot() (c *conn, excess bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := len(s.slots) - len(s.free)
	excess = open >= s.limits.connections
	if n := len(s.free); n > 0 {
		c = s.slots[s.free[n-1]]
		s.free = s.free[:n-1]
		return c, excess
	}
	if len(s.slots) == cap(s.slots) {
		return nil, true
	}
	c = &conn{tag: tag{slot: int32(len(s.slots))}}
	s.slots = append(s.slots, c)
	return c, excess
}

// close ends a connection that the caller owns; the caller must not use it
// again.
func (s *server) close(c *conn) {
	c.forget()
	c.in = nil
	c.sock.close()
	c.signals.end()
	s.mu.Lock()
	s.free = append(s.free, int(c.tag.slot))
	s.mu.Unlock()
}

// done reports whether there is no connection and there will be none.
func (s *server) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acceptorClosed && len(s.free) == len(s.slots)
}

func (s *server) closeAcceptor() {
	if !s.acceptorClosed {
		s.acceptorClosed = true
		_ = s.acceptor.Close() // an error changes nothing
	}
}

// lost handles the dead letter of a connection whose command ended without an
// answer, because a handler crashed: the client is at least informed that the
// fault is the server's.
func (s *server) lost(l stage.DeadLetter) {
	c := l.Command.(*conn)
	if c.state == reading {
		crashed := refusal{status: http.StatusInternalServerError, words: "something went wrong here", final: true}
		_, _ = c.sock.write([][]byte{crashed.whole()})
		s.stats.count(crashed.status)
	}
	s.close(c)
}
