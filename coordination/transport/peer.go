package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"
)

// peer is another node, from the first connection, or wish for one, until it is lost. When both nodes connect at the same
// time there are two connections: each node sends on its own and receives from both. Its fields are guarded by the socket's
// lock.
type peer struct {
	node    string
	birth   uint64     // 0 until it is known
	conns   []net.Conn // the first is the one to send on
	queue   [][]byte
	queued  int // bytes
	notices map[*notice]struct{}
	lost    bool

	bell chan struct{} // there is something to send, or the peer is lost
}

func (p *peer) wake() {
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

// peerLocked returns the peer of a name. If there is none, it makes one and has it connected.
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
	p := &peer{node: node, notices: map[*notice]struct{}{}, bell: make(chan struct{}, 1)}
	s.peers[node] = p
	return p
}

// lose ends a peer: its connections are closed, and what was not sent is dropped.
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
	if !s.attach(p, conn, true) {
		_ = conn.Close()
		return
	}
	if err := s.writeHello(conn); err != nil {
		s.lose(p, err)
		return
	}
	s.work.Go(func() {
		r := s.reader(conn)
		h, err := s.readHello(r)
		if err == nil && h.Node != p.node {
			err = fmt.Errorf("%s calls itself %s", p.node, h.Node)
		}
		if err == nil && !s.identify(p, h.Birth) {
			err = errors.New("it was replaced by another program")
		}
		if err == nil {
			err = s.read(p, r)
		}
		s.lose(p, err)
	})
	s.write(p)
}

// welcome handles a connection that another node has made.
func (s *socket) welcome(conn net.Conn) {
	defer s.closeAtEnd(conn)()
	r := s.reader(conn)
	h, err := s.readHello(r)
	if err == nil {
		err = s.writeHello(conn)
	}
	if err != nil {
		_ = conn.Close()
		return
	}
	p, fresh := s.peerOf(h)
	if p == nil || !s.attach(p, conn, false) {
		_ = conn.Close()
		if p != nil && fresh {
			s.lose(p, errClosed)
		}
		return
	}
	if fresh {
		s.work.Go(func() { s.write(p) })
	}
	s.lose(p, s.read(p, r))
}

// closeAtEnd has a connection closed when the transport is, although no peer may have it yet.
func (s *socket) closeAtEnd(conn net.Conn) (undo func() bool) {
	return context.AfterFunc(s.ctx, func() { _ = conn.Close() })
}

// peerOf returns the peer that has said hello, and whether it is new.
func (s *socket) peerOf(h hello) (p *peer, fresh bool) {
	for {
		s.mu.Lock()
		switch p = s.peers[h.Node]; {
		case s.closed:
			s.mu.Unlock()
			return nil, false
		case p == nil:
			p = s.addLocked(h.Node)
			p.birth = h.Birth
			s.mu.Unlock()
			return p, true
		}
		s.mu.Unlock()
		if s.identify(p, h.Birth) {
			return p, false
		}
		s.lose(p, errors.New("it was replaced by another program"))
	}
}

// identify reports whether a peer is the program of that birth.
func (s *socket) identify(p *peer, birth uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.birth == 0 {
		p.birth = birth
	}
	return p.birth == birth
}

// attach adds a connection to a peer, unless that is lost. If own is set, or there is no other, it is the one to send on.
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

// write sends what is queued, and heartbeats on all connections, until the peer is lost. It is the only one that writes, after the hellos.
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

// writeFrames writes messages, each behind its length. A heartbeat is a message without bytes.
func (s *socket) writeFrames(conn net.Conn, out *bufio.Writer, frames [][]byte) error {
	if len(frames) == 0 {
		return nil
	}
	if err := conn.SetWriteDeadline(time.Now().Add(silences * s.cfg.Heartbeat)); err != nil {
		return err
	}
	var length [4]byte
	for _, f := range frames {
		binary.BigEndian.PutUint32(length[:], uint32(len(f)))
		if _, err := out.Write(length[:]); err != nil {
			return err
		}
		if _, err := out.Write(f); err != nil {
			return err
		}
	}
	return out.Flush()
}

// read delivers what a peer sends on one connection. It returns why it has ended.
func (s *socket) read(p *peer, r io.Reader) error {
	for {
		data, err := s.readFrame(r)
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

func (s *socket) readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(length[:]))
	if n > s.cfg.MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes came, the most is %d", ErrTooLarge, n, s.cfg.MaxMessage)
	}
	data := make([]byte, n)
	_, err := io.ReadFull(r, data)
	return data, err
}

// reader returns what a connection receives. A read fails if nothing has come for too long.
func (s *socket) reader(conn net.Conn) io.Reader {
	return bufio.NewReaderSize(patient{conn, silences * s.cfg.Heartbeat}, 64<<10)
}

type patient struct {
	net.Conn
	limit time.Duration
}

func (c patient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// hello is the first frame on a connection, in both directions.
type hello struct {
	Protocol string `json:"protocol"`
	Node     string `json:"node"`
	Birth    uint64 `json:"birth"`
}

const protocol = "golda/1"

func (s *socket) writeHello(conn net.Conn) error {
	data, err := json.Marshal(hello{protocol, s.node, s.birth})
	if err != nil {
		return err
	}
	return s.writeFrames(conn, bufio.NewWriter(conn), [][]byte{data})
}

// largestHello is the length of the longest hello.
const largestHello = 4 << 10

func (s *socket) readHello(r io.Reader) (h hello, err error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return h, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > largestHello {
		return h, errMalformed
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return h, err
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return h, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if h.Protocol != protocol || h.Node == "" || h.Birth == 0 {
		return h, fmt.Errorf("%w: a hello of protocol %q", errMalformed, h.Protocol)
	}
	return h, nil
}
