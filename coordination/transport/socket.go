package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// Config configures the sockets of [Listen]. Its zero value is ready for use.
type Config struct {
	// Advertise is the address at which other nodes reach this one, if that is not the address given to Listen: as behind a
	// gateway, or if this node listens on all addresses of its machine.
	Advertise string

	// MaxMessage is the length of the longest message in bytes, for sending and receiving; 0 means 16 MiB.
	MaxMessage int

	// MaxQueue is how many bytes may wait to be sent to one node. If there are more, the node is lost: it does not read. 0 means
	// 64 MiB.
	MaxQueue int

	// Heartbeat is how often a node that has nothing to send shows that it lives. A node that was not heard of for three
	// times as long is lost. 0 means 5 s.
	Heartbeat time.Duration
}

// The defaults of a Config.
const (
	defaultMaxMessage = 16 << 20
	defaultMaxQueue   = 64 << 20
	defaultHeartbeat  = 5 * time.Second
	silences          = 3 // heartbeats that may be missing
)

// Listen returns a transport over sockets: network is "tcp" or "unix", as in package net. The name of the node is the
// network and its address, such as "tcp:127.0.0.1:7001": other nodes of the same kind need no more to reach it, and connect
// when there is something to send.
//
// Nodes trust each other: there is neither authentication nor encryption. Use it on one machine, or in a network that is
// protected otherwise.
func Listen(network, address string, cfg Config) (Transport, error) {
	if cfg.MaxMessage < 0 || cfg.MaxQueue < 0 || cfg.Heartbeat < 0 {
		return nil, fmt.Errorf("transport: negative number in Config: MaxMessage %d, MaxQueue %d, Heartbeat %v",
			cfg.MaxMessage, cfg.MaxQueue, cfg.Heartbeat)
	}
	cfg.MaxMessage = cmp.Or(cfg.MaxMessage, defaultMaxMessage)
	cfg.MaxQueue = cmp.Or(cfg.MaxQueue, defaultMaxQueue)
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, defaultHeartbeat)
	l, err := net.Listen(network, address) //nolint:noctx // it does not block
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	at := l.Addr().String()
	if cfg.Advertise != "" {
		at = cfg.Advertise
	} else if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		_ = l.Close()
		return nil, fmt.Errorf("transport: other nodes cannot reach %s: set Config.Advertise", at)
	}
	s := &socket{
		cfg: cfg, listener: l, node: network + ":" + at, birth: rand.Uint64(),
		peers: map[string]*peer{}, self: map[*notice]struct{}{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// socket is the transport of one node over sockets.
type socket struct {
	cfg      Config
	listener net.Listener
	node     string
	birth    uint64 // tells this node from one that had its name before
	deliver  func(from string, m *Message)
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu     sync.Mutex // guards the fields below, and those of peers
	closed bool
	peers  map[string]*peer
	self   map[*notice]struct{}
}

// notice is one call of Watch.
type notice struct{ lost func(error) }

var errClosed = fmt.Errorf("%w: the transport is closed", ErrUnreachable)

func (s *socket) Node() string { return s.node }

func (s *socket) Serve(deliver func(from string, m *Message)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.deliver = deliver
	s.work.Go(s.accept)
	return nil
}

func (s *socket) Send(node string, m *Message) error {
	data, err := Encode(m)
	if err != nil {
		return err
	}
	if len(data) > s.cfg.MaxMessage {
		return fmt.Errorf("%w: %d bytes, the most is %d", ErrTooLarge, len(data), s.cfg.MaxMessage)
	}
	if node == s.node {
		return s.sendSelf(data)
	}
	s.mu.Lock()
	p, err := s.peerLocked(node)
	if err == nil {
		p.queue = append(p.queue, data)
		p.queued += len(data)
		if p.queued > s.cfg.MaxQueue {
			err = fmt.Errorf("%w: %s does not read: %d bytes wait", ErrUnreachable, node, p.queued)
		}
	}
	s.mu.Unlock()
	switch {
	case p == nil:
		return err
	case err != nil:
		s.lose(p, err)
		return err
	}
	p.wake()
	return nil
}

func (s *socket) sendSelf(data []byte) error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return errClosed
	}
	m, err := Decode(data)
	if err != nil {
		return err
	}
	s.deliver(s.node, m)
	return nil
}

func (s *socket) Watch(node string, lost func(error)) (stop func()) {
	n := &notice{lost}
	s.mu.Lock()
	notices := s.self
	var err error
	if s.closed {
		err = errClosed
	} else if node != s.node {
		var p *peer
		if p, err = s.peerLocked(node); err == nil {
			notices = p.notices
		}
	}
	if err == nil {
		notices[n] = struct{}{}
	}
	s.mu.Unlock()
	if err != nil {
		lost(err)
		return func() {}
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(notices, n)
	}
}

// Close waits for the functions that the transport calls, so these must not call it.
func (s *socket) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	var peers []*peer
	for _, p := range s.peers {
		peers = append(peers, p)
	}
	self := s.self
	s.self = nil
	s.mu.Unlock()
	s.cancel()
	err := s.listener.Close()
	for _, p := range peers {
		s.lose(p, errClosed)
	}
	for n := range self {
		n.lost(errClosed)
	}
	s.work.Wait()
	if err != nil {
		return fmt.Errorf("transport: %w", err)
	}
	return nil
}

// accept takes connections until the transport is closed.
func (s *socket) accept() {
	for {
		conn, err := s.listener.Accept()
		if err == nil {
			s.work.Go(func() { s.welcome(conn) })
			continue
		}
		if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		select { // too many open files, as a rule
		case <-time.After(10 * time.Millisecond):
		case <-s.ctx.Done():
		}
	}
}

// dial connects to a node by its name.
func (s *socket) dial(node string) (net.Conn, error) {
	network, address, ok := strings.Cut(node, ":")
	if !ok || network == "" {
		return nil, fmt.Errorf("%w: %q is not the name of a node", ErrUnreachable, node)
	}
	d := net.Dialer{Timeout: silences * s.cfg.Heartbeat}
	conn, err := d.DialContext(s.ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return conn, nil
}
