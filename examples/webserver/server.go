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

// server is what all stages share, and the source of the pipeline: one goroutine that waits for all
// connections and hands those with something to do to a stage.
type server struct {
	limits limits
	site   fs.FS
	cache  *cache
	stats  stats
	born   time.Time

	line   *pipeline.Pipeline
	entry  *stage.Stage[*conn] // for what there is to read
	exit   *stage.Stage[*conn] // for answers that there is room for again
	poller *poller
	door   door
	shut   bool // the door is closed; only the source asks
	missed bool // somebody could not be let in, for want of file descriptors perhaps

	stop atomic.Bool  // no new requests
	cut  atomic.Int64 // when patience ends, on the server's clock; 0 for not yet

	mu    sync.Mutex // guards what follows
	slots []*conn    // all there ever were; only the source adds to them, and may read them without the lock
	free  []int
}

func newServer(l limits, site fs.FS, cacheBytes int64) *server {
	return &server{
		limits: l, site: site, cache: newCache(cacheBytes, l.fresh),
		born: time.Now(), slots: make([]*conn, 0, l.connections+l.spare),
	}
}

// now is the server's clock: the time since it was made.
func (s *server) now() time.Duration { return time.Since(s.born) }

// draining reports whether each answer is its connection's last.
func (s *server) draining() bool { return s.stop.Load() }

// stopping reports whether a connection that waits for a request need not wait any longer.
func (s *server) stopping(partial bool) bool { return s.draining() && !partial || s.cutting() }

// cutting reports whether the time to drain is over.
func (s *server) cutting() bool {
	cut := s.cut.Load()
	return cut != 0 && int64(s.now()) >= cut
}

// drain lets no more requests in, and gives those that are here some time.
func (s *server) drain(patience time.Duration) {
	s.cut.CompareAndSwap(0, max(1, int64(s.now()+patience)))
	s.stop.Store(true)
}

// tag names what an event is about: a connection, by its slot and by which of the connections that had the slot one
// after another it is. The generation is needed because events come in batches: when the source reads an event, a stage
// may have closed its connection, and an event before it in the batch may have brought a new one into the slot.
type tag struct{ slot, generation int32 }

// doorTag is the tag of the door.
func doorTag() tag { return tag{slot: -1} }

// open makes ready to serve at a listener.
func (s *server) open(l net.Listener) (err error) {
	if s.door, err = newDoor(l); err != nil {
		return err
	}
	if s.poller, err = newPoller(); err != nil {
		return err
	}
	if err := s.poller.addDoor(s.door, doorTag()); err != nil {
		s.poller.close()
		return err
	}
	return nil
}

// serve is the source. It returns when the server was told to drain and the last connection has
// ended, or when it can't watch them any more.
func (s *server) serve() error {
	defer s.poller.close()
	defer s.shutDoor()
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
			s.heed(s.poller.event(i))
		}
	}
}

// heed does what an event asks for. It ignores an event of a connection that has left its slot to another.
func (s *server) heed(of tag, what sign) {
	if of == doorTag() {
		s.welcome()
		return
	}
	if c := s.slots[of.slot]; c.tag == of && c.signals.raise(what) {
		s.send(c)
	}
}

// send hands a connection to the stage that it waits for. All stages have room for all
// connections, so this never waits.
func (s *server) send(c *conn) {
	to := s.entry
	if c.state == writing {
		to = s.exit
	}
	if to.Submit(context.Background(), c) != nil { // the pipeline is gone
		s.close(c)
	}
}

// round looks after time limits, and after those who could not be let in.
func (s *server) round(now time.Duration) {
	if s.draining() {
		s.shutDoor()
	} else if s.missed {
		s.welcome()
	}
	for _, c := range s.slots {
		if (s.draining() || c.expired(now)) && c.signals.raise(late) {
			s.send(c)
		}
	}
}

// welcome lets in all who are at the door.
func (s *server) welcome() {
	for s.missed = false; !s.shut; {
		sock, err := s.door.accept()
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
		patience = s.limits.linger // others may want to be told the same
	}
	if c == nil { // not even room to say so and wait until it is read
		_, _ = sock.write([][]byte{tooMany().whole()})
		sock.close()
		return
	}
	c.open(sock, excess, s.now()+patience)
	if s.poller.add(sock, c.tag) != nil {
		s.close(c)
	}
}

// slot returns a connection to use, nil if there is none. It tells whether it is one of those who
// are only let in to be told that there are too many.
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

// close ends a connection that the caller owns, and never touches again.
func (s *server) close(c *conn) {
	c.forget()
	c.in = nil
	c.sock.close()
	c.signals.end()
	s.mu.Lock()
	s.free = append(s.free, int(c.tag.slot))
	s.mu.Unlock()
}

// done reports whether nobody is here and nobody will come.
func (s *server) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shut && len(s.free) == len(s.slots)
}

func (s *server) shutDoor() {
	if !s.shut {
		s.shut = true
		_ = s.door.Close() // there is nothing else to be done with it
	}
}

// lost is told of a connection whose command ended without an answer, because a handler crashed: the client
// gets at least to know that it is not its fault.
func (s *server) lost(l stage.DeadLetter) {
	c := l.Command.(*conn)
	if c.state == reading {
		crashed := refusal{status: http.StatusInternalServerError, words: "something went wrong here", final: true}
		_, _ = c.sock.write([][]byte{crashed.whole()})
		s.stats.count(crashed.status)
	}
	s.close(c)
}
