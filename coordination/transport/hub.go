package transport

import (
	"fmt"
	"sync"
)

// Hub connects nodes of one program. Messages are handed over as they are:
// values are not encoded, and a pointer that one node sends is the pointer that
// the other gets. The zero Hub is ready for use, by any goroutine.
type Hub struct {
	// mu guards the fields below and the fields of the hub's ports.
	mu    sync.Mutex
	ports map[string]*port
}

// Join makes a node of that name a part of the hub. It panics if there is a
// node of the name.
func (h *Hub) Join(node string) Transport {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ports[node] != nil {
		panic("transport: Join: there is a node " + node)
	}
	if h.ports == nil {
		h.ports = map[string]*port{}
	}
	p := &port{hub: h, node: node, watches: map[*portWatch]bool{}}
	h.ports[node] = p
	return p
}

// Cut has two nodes notified that they have lost each other, as after a
// connection that broke. Nothing else happens: messages between them arrive as
// before. So Cut makes a false notice, for tests.
func (h *Hub) Cut(a, b string) {
	h.notify(fmt.Errorf("%w: the connection of %s and %s was cut", ErrUnreachable, a, b), func(p *port, w *portWatch) bool {
		return p.node == a && w.node == b || p.node == b && w.node == a
	})
}

// notify calls and removes the watches that are chosen.
func (h *Hub) notify(reason error, chosen func(p *port, w *portWatch) bool) {
	var lost []func(error)
	h.mu.Lock()
	for _, p := range h.ports {
		lost = append(lost, p.takeLocked(func(w *portWatch) bool { return chosen(p, w) })...)
	}
	h.mu.Unlock()
	for _, f := range lost {
		f(reason)
	}
}

// port is a node of a hub.
type port struct {
	hub     *Hub
	node    string
	deliver func(from string, m *Message)
	watches map[*portWatch]bool
	closed  bool
}

type portWatch struct {
	node string
	lost func(error)
}

func (p *port) Node() string { return p.node }

func (p *port) Serve(deliver func(from string, m *Message)) error {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.deliver = deliver
	return nil
}

func (p *port) Send(node string, m *Message) error {
	deliver, err := p.to(node)
	if err != nil {
		return err
	}
	deliver(p.node, m)
	return nil
}

func (p *port) to(node string) (deliver func(string, *Message), err error) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	to := p.hub.ports[node]
	switch {
	case p.closed:
		return nil, fmt.Errorf("%w: %s is closed", ErrUnreachable, p.node)
	case to == nil || to.deliver == nil:
		return nil, fmt.Errorf("%w: there is no node %s", ErrUnreachable, node)
	default:
		return to.deliver, nil
	}
}

func (p *port) Watch(node string, lost func(error)) (stop func()) {
	w := &portWatch{node, lost}
	p.hub.mu.Lock()
	to := p.hub.ports[node]
	gone := p.closed || to == nil || to.closed
	if !gone {
		p.watches[w] = true
	}
	p.hub.mu.Unlock()
	if gone {
		lost(fmt.Errorf("%w: there is no node %s", ErrUnreachable, node))
		return func() {}
	}
	return func() {
		p.hub.mu.Lock()
		defer p.hub.mu.Unlock()
		delete(p.watches, w)
	}
}

func (p *port) Close() error {
	p.hub.mu.Lock()
	if p.closed {
		p.hub.mu.Unlock()
		return nil
	}
	p.closed = true
	delete(p.hub.ports, p.node)
	own := p.takeLocked(func(*portWatch) bool { return true })
	p.hub.mu.Unlock()
	reason := fmt.Errorf("%w: %s is closed", ErrUnreachable, p.node)
	for _, f := range own {
		f(reason)
	}
	p.hub.notify(reason, func(_ *port, w *portWatch) bool { return w.node == p.node })
	return nil
}

// takeLocked removes the chosen watches and returns their functions.
func (p *port) takeLocked(chosen func(w *portWatch) bool) (lost []func(error)) {
	for w := range p.watches {
		if chosen(w) {
			delete(p.watches, w)
			lost = append(lost, w.lost)
		}
	}
	return lost
}
