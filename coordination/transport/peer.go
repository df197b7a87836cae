package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"
)

// peer is another node, from the first connection, or wish for one, until it is
// lost. When both nodes connect at the same time there are two connections:
// each node sends on its own and receives from both. Its fields are guarded by
// the socket's lock.
type peer struct {
	node    string
	key     []byte     // nil until it is known
	called  bool       // it has made one of the connections
	conns   []net.Conn // messages are sent on the first
	queue   [][]byte
	queued  int // bytes
	notices map[*notice]struct{}
	lost    bool

	bell chan struct{} // there is something to send, or the peer is lost
	gone chan struct{} // is closed when the peer is lost
}

func (p *peer) wake() {
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

// peerLocked returns the peer of a name. If there is none, it makes one and
// connects it.
func (s *socket) peerLocked(node string) (*peer, error) {
	if s.closed {
		return nil, errClosed
	}
	if p := s.peers[node]; p != nil {
		return p, nil
	}
	p := s.addLocked(node)
	s.work.Go(func() { s.connect(p) })
	return p, nil
}

func (s *socket) addLocked(node string) *peer {
	p := &peer{node: node, notices: map[*notice]struct{}{}, bell: make(chan struct{}, 1), gone: make(chan struct{})}
	s.peers[node] = p
	return p
}

// lose ends a peer: its connections are closed, and its unsent messages are
// dropped.
func (s *socket) lose(p *peer, reason error) {
	if !errors.Is(reason, ErrUnreachable) {
		reason = fmt.Errorf("%w: %s: %w", ErrUnreachable, p.node, reason)
	}
	s.mu.Lock()
	if p.lost {
		s.mu.Unlock()
		return
	}
	p.lost = true
	if s.peers[p.node] == p {
		delete(s.peers, p.node)
	}
	conns, notices := p.conns, slices.Collect(maps.Keys(p.notices))
	clear(p.notices)
	p.queue = nil
	close(p.gone)
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	p.wake()
	for _, n := range notices {
		n.lost(reason)
	}
}

// connect connects to a peer, and then sends.
func (s *socket) connect(p *peer) {
	conn, err := s.dial(p.node)
	if err != nil {
		s.lose(p, err)
		return
	}
	defer s.closeAtEnd(conn)()
	r := s.receiver(conn)
	key, err := s.call(conn, r, p.node)
	if err == nil && !s.identify(p, key) {
		err = errReplaced
	}
	if err != nil {
		_ = conn.Close()
		s.lose(p, err)
		return
	}
	if !s.attach(p, conn, true) {
		_ = conn.Close()
		return
	}
	s.work.Go(func() { s.lose(p, s.read(p, r)) })
	s.write(p)
}

var (
	errReplaced = errors.New("it was replaced by another program")
	errAnew     = errors.New("it has connected anew")
)

// welcome handles a connection that another node has made.
func (s *socket) welcome(conn net.Conn) {
	defer s.closeAtEnd(conn)()
	r := s.receiver(conn)
	s.expect(conn)
	i, err := s.listenTo(conn, r)
	var p *peer
	var fresh bool
	if err == nil {
		p, fresh, err = s.admit(i.caller)
	}
	s.forget(conn)
	if err != nil {
		s.refuse(conn, i.caller.Node, err)
		return
	}
	defer s.release()
	if err = s.writeHello(conn, s.prove(i, calledSide)); err == nil && !s.attach(p, conn, false) {
		err = errClosed
	}
	if err != nil {
		_ = conn.Close()
		s.lose(p, err)
		return
	}
	if fresh {
		s.work.Go(func() { s.write(p) })
	}
	s.lose(p, s.read(p, r))
}

// expect notes a connection whose node has not introduced itself. If there are
// too many the oldest is closed: a node that means to introduce itself takes no
// time for it.
func (s *socket) expect(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.hellos) == s.cfg.MaxHellos {
		_ = s.hellos[0].Close()
		s.hellos = slices.Delete(s.hellos, 0, 1)
	}
	s.hellos = append(s.hellos, conn)
}

func (s *socket) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hellos = slices.DeleteFunc(s.hellos, func(c net.Conn) bool { return c == conn })
}

// release notes that a connection has ended that another node has made.
func (s *socket) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted--
}

// closeAtEnd has a connection closed when the transport is, although no peer
// may have it yet.
func (s *socket) closeAtEnd(conn net.Conn) (undo func() bool) {
	return context.AfterFunc(s.ctx, func() { _ = conn.Close() })
}

// takeover is how long a program that claims a name waits for the loss of the
// program that is connected: if that program was killed, the loss is noticed
// within moments.
const takeover = time.Second

// admit returns the peer that has introduced itself, and whether it is new, if
// there is a place for a connection of it.
func (s *socket) admit(h hello) (p *peer, fresh bool, err error) {
	for {
		p, fresh, err = s.peerOf(h)
		switch {
		case errors.Is(err, errReplaced) && len(s.cfg.Secret) == 0:
			if !s.awaitLoss(p) {
				return nil, false, taken
			}
		case errors.Is(err, errReplaced), errors.Is(err, errAnew):
			s.lose(p, err)
		default:
			return p, fresh, err
		}
	}
}

// peerOf is one try of admit. The error may be that the peer of the name is not
// the program that has introduced itself, or that it is and had made a
// connection already, which it has given up then.
func (s *socket) peerOf(h hello) (p *peer, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p = s.peers[h.Node]
	switch {
	case s.closed:
		return nil, false, errClosed
	case p != nil && p.key != nil && !bytes.Equal(p.key, h.Key):
		return p, false, errReplaced
	case p != nil && p.called:
		return p, false, errAnew
	case s.accepted == s.cfg.MaxConns:
		return nil, false, full
	case p == nil:
		p, fresh = s.addLocked(h.Node), true
	}
	p.key, p.called = h.Key, true
	s.accepted++
	return p, fresh, nil
}

// awaitLoss reports whether a peer is lost soon.
func (s *socket) awaitLoss(p *peer) bool {
	timer := time.NewTimer(takeover)
	defer timer.Stop()
	select {
	case <-p.gone:
		return true
	case <-s.ctx.Done():
	case <-timer.C:
	}
	return false
}

// identify reports whether a peer is the program with that key.
func (s *socket) identify(p *peer, key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.key == nil {
		p.key = key
	}
	return bytes.Equal(p.key, key)
}

// attach adds a connection to a peer, unless that peer is lost. If own is set,
// or there is no other connection, messages are sent on this one.
func (s *socket) attach(p *peer, conn net.Conn, own bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.lost || s.closed {
		return false
	}
	if own {
		p.conns = slices.Insert(p.conns, 0, conn)
	} else {
		p.conns = append(p.conns, conn)
	}
	return true
}

// write sends the queued messages, and heartbeats on all connections, until the
// peer is lost. After the hellos only this goroutine writes.
func (s *socket) write(p *peer) {
	beat := time.NewTicker(s.cfg.Heartbeat)
	defer beat.Stop()
	var out *bufio.Writer
	for {
		due := false
		select {
		case <-p.bell:
		case <-beat.C:
			due = true
		}
		s.mu.Lock()
		frames, conns, lost := p.queue, slices.Clone(p.conns), p.lost
		p.queue, p.queued = nil, 0
		s.mu.Unlock()
		if lost {
			return
		}
		if out == nil {
			out = bufio.NewWriterSize(conns[0], 64<<10) // it stays the first
		}
		err := s.writeFrames(conns[0], out, frames)
		for _, c := range conns {
			if due && err == nil {
				err = s.writeFrames(c, bufio.NewWriterSize(c, 16), [][]byte{nil})
			}
		}
		if err != nil {
			s.lose(p, err)
			return
		}
	}
}

// read delivers the messages that a peer sends on one connection. It returns
// why the connection has ended.
func (s *socket) read(p *peer, r *receiver) error {
	for {
		data, err := r.next(uint32(s.cfg.MaxMessage))
		if err != nil {
			return err
		}
		if len(data) == 0 {
			continue // a heartbeat
		}
		m, err := Decode(data)
		if err != nil {
			return err
		}
		s.deliver(p.node, m)
	}
}
