package transport

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Listen returns a transport over sockets: network is "tcp" or "unix", as in
// package net. The name of the node is the network and its address, such as
// "tcp:127.0.0.1:7001": other nodes of the same network need no more to reach
// it, and connect when there is something to send.
//
// Nodes that connect prove to each other that they have the same
// [Config.Secret], and that the name still belongs to the same program. After
// that nothing is encrypted or sealed: a program that can read or change the
// packets between two nodes can read and change their messages. Across machines
// use a network that is protected, or package adapter/nats with TLS. A Unix
// socket that is a file is given mode 0600, so that programs of other users
// cannot connect.
//
// Without a secret, on a Unix socket or with [Config.Insecure], a name that is
// connected stays with its program: another program that claims it is refused
// until the first is lost.
func Listen(network, address string, cfg Config) (Transport, error) {
	cfg, err := cfg.complete(network, address)
	if err != nil {
		return nil, err
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	l, node, err := listen(network, address, cfg)
	if err != nil {
		return nil, err
	}
	s := &socket{
		cfg: cfg, listener: l, node: node, kind: networkKind(network), key: key,
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
	kind     string             // of its network: "tcp" or "unix"
	key      ed25519.PrivateKey // tells this node from one that had its name before
	deliver  func(from string, m *Message)
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu     sync.Mutex // guards the fields below and the fields of peers
	closed bool
	peers  map[string]*peer
	self   map[*notice]struct{}

	hellos   []net.Conn // connections whose nodes have not introduced themselves, the oldest first
	accepted int        // connections that others have made and that have
	refused  int        // connections, since one was logged
	logged   time.Time
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

// Close waits for the functions that the transport calls, so these must not
// call it.
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
	network, address, err := checkNode(s.kind, node)
	if err != nil {
		return nil, err
	}
	if !s.cfg.Peers(node) {
		return nil, fmt.Errorf("%w: %q is not a node that this one connects to: see Config.Peers", ErrUnreachable, node)
	}
	d := net.Dialer{Timeout: silences * s.cfg.Heartbeat}
	conn, err := d.DialContext(s.ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return conn, nil
}
