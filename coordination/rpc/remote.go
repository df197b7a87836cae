package rpc

import (
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/coordination/transport"
)

// The kinds of messages between nodes.
const (
	kindRequest uint8 = iota + 1 // Call is the caller's number; 0 if no reply is wanted
	kindReply
	kindCancel
	kindWatch // Call is the watcher's number
	kindUnwatch
	kindEnded      // the watched process has ended
	kindCoordinate // of a process to a synchronizer, or back
)

// peer is another node, as long as there is something between it and this one.
// The fields are guarded by the node's lock.
type peer struct {
	name     string
	calls    map[uint64]*call    // from here to there
	watches  map[uint64]*watch   // of processes there
	served   map[uint64]*request // from there to here
	watching map[uint64]*watch   // of processes here, by number there
	stop     func()              // stops the watch of the node; nil until that has started
	gone     bool
}

// peerLocked returns the peer of a name, and whether it is new: then the caller
// must call observe without the lock.
func (n *Node) peerLocked(name string) (p *peer, fresh bool) {
	if p = n.peers[name]; p != nil {
		return p, false
	}
	p = &peer{
		name: name, calls: map[uint64]*call{}, watches: map[uint64]*watch{},
		served: map[uint64]*request{}, watching: map[uint64]*watch{},
	}
	n.peers[name] = p
	return p, true
}

// observe has the loss of a new peer noticed.
func (n *Node) observe(p *peer) {
	stop := n.cfg.Transport.Watch(p.name, func(reason error) { n.lose(p, reason) })
	n.mu.Lock()
	p.stop = stop
	gone := p.gone
	n.mu.Unlock()
	if gone {
		stop()
	}
}

// lose ends all calls, watches and requests between this node and another.
// Later ones belong to a new peer of that name.
func (n *Node) lose(p *peer, reason error) {
	if !errors.Is(reason, ErrUnreachable) {
		reason = fmt.Errorf("%w: %w", ErrUnreachable, reason)
	}
	n.mu.Lock()
	if p.gone {
		n.mu.Unlock()
		return
	}
	p.gone = true
	if n.peers[p.name] == p {
		delete(n.peers, p.name)
	}
	stop := p.stop
	n.mu.Unlock() // nothing is added to a peer that is gone
	if stop != nil {
		stop()
	}
	for _, k := range p.calls {
		k.finish(nil, reason)
	}
	for _, w := range p.watches {
		w.end(reason)
	}
	// The other node may have noticed the loss earlier and may have asked for
	// watches since then, which would be forgotten here: so it is notified. It
	// ignores a notice about a watch that it has not asked for since then.
	for number, w := range p.watching {
		w.stop()
		_ = n.transmit(p.name, &transport.Message{Kind: kindEnded, Call: number})
	}
	for number, r := range p.served {
		r.cancel(reason)
		n.reply(p.name, number, nil, reason)
	}
}

// sendAway sends a request to another node. If k is nil no reply is wanted.
func (n *Node) sendAway(k *call, to Address, o order) error {
	m := &transport.Message{Kind: kindRequest, Process: to.process, Method: o.method, Within: o.left(), Headers: o.message(), Body: o.body}
	if k == nil {
		return n.transmit(to.node, m)
	}
	var p *peer
	var number uint64
	if err := n.with(to.node, func(with *peer) {
		p, number = with, n.nextLocked()
		k.leave = func(error) {
			if n.forget(p, number) {
				_ = n.transmit(p.name, &transport.Message{Kind: kindCancel, Call: number})
			}
		}
		p.calls[number] = k
	}); err != nil {
		return err
	}
	m.Call = number
	if err := n.transmit(to.node, m); err != nil {
		n.forget(p, number)
		return err
	}
	return nil
}

// forget removes a call to another node, and reports whether it was under way.
func (n *Node) forget(p *peer, number uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.gone {
		return false
	}
	_, there := p.calls[number]
	delete(p.calls, number)
	return there
}

// with calls f, under the lock, with the peer of a name.
func (n *Node) with(name string, f func(p *peer)) error {
	n.mu.Lock()
	switch {
	case n.closed:
		n.mu.Unlock()
		return n.errClosed()
	case n.cfg.Transport == nil:
		n.mu.Unlock()
		return fmt.Errorf("%w: there is no transport to node %q", ErrUnreachable, name)
	}
	p, fresh := n.peerLocked(name)
	f(p)
	n.mu.Unlock()
	if fresh {
		n.observe(p)
	}
	return nil
}

// transmit sends a message to another node.
func (n *Node) transmit(to string, m *transport.Message) error {
	if n.cfg.Transport == nil {
		return fmt.Errorf("%w: there is no transport to node %q", ErrUnreachable, to)
	}
	return n.cfg.Transport.Send(to, m)
}

// receive handles a message from another node.
func (n *Node) receive(from string, m *transport.Message) {
	switch m.Kind {
	case kindRequest:
		n.receiveRequest(from, m)
	case kindReply:
		if k := n.takeCall(from, m.Call); k != nil {
			k.finish(m.Body, m.Err)
		}
	case kindCancel:
		n.mu.Lock()
		var r *request
		if p := n.peers[from]; p != nil {
			r = p.served[m.Call]
			delete(p.served, m.Call)
		}
		n.mu.Unlock()
		if r != nil {
			r.cancel(errCancelled)
		}
	case kindWatch:
		n.receiveWatch(from, m)
	case kindUnwatch:
		if w := n.takeWatching(from, m.Call); w != nil {
			w.stop()
		}
	case kindEnded:
		if w := n.takeWatch(from, m.Call); w != nil {
			w.end(fmt.Errorf("%w: the process has ended", ErrUnreachable))
		}
	case kindCoordinate:
		n.receiveParty(from, m)
	default: // of a newer version
	}
}

// errCancelled is the cause with which a function is stopped for a caller on
// another node.
var errCancelled = errors.New("rpc: the caller does not wait any more")

func (n *Node) takeCall(from string, number uint64) *call {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[from]
	if p == nil {
		return nil
	}
	k := p.calls[number]
	delete(p.calls, number)
	return k
}

// receiveRequest serves a request from another node.
func (n *Node) receiveRequest(from string, m *transport.Message) {
	o := order{method: m.Method, body: m.Body, carried: received(m.Headers)}
	if m.Within > 0 {
		o.deadline = time.Now().Add(m.Within)
	}
	number, wanted := m.Call, m.Call != 0
	p, err := n.lookup(m.Process)
	if err != nil {
		if wanted {
			n.reply(from, number, nil, err)
		}
		return
	}
	r := &request{order: o, process: p, from: from}
	if wanted {
		r.reply = func(value any, err error) {
			if n.takeServed(from, number, r) {
				n.reply(from, number, value, err)
			}
		}
	}
	if err := n.allow(from, r, number); err != nil {
		n.refuse(from, number, err)
		return
	}
	if err := p.accept(r); err != nil {
		r.end()
		if wanted {
			r.reply(nil, err)
		}
	}
}

// takeServed reports whether a request was still served for another node: it is
// not any more. If that node was lost meanwhile, the number may belong to a
// call of another program that has its name.
func (n *Node) takeServed(from string, number uint64, r *request) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[from]
	if p == nil || p.served[number] != r {
		return false
	}
	delete(p.served, number)
	return true
}

// reply sends the end of a call to the caller's node.
func (n *Node) reply(to string, number uint64, value any, err error) {
	failed := n.transmit(to, &transport.Message{Kind: kindReply, Call: number, Body: value, Err: outbound(err)})
	if failed != nil && !errors.Is(failed, ErrUnreachable) { // the value cannot be sent, but that can be said
		_ = n.transmit(to, &transport.Message{Kind: kindReply, Call: number, Err: fmt.Errorf("rpc: the result: %w", failed)})
	}
}
