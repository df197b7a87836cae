package rpc

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/transport"
)

// watch waits for the end of a process.
type watch struct {
	watched

	mu     sync.Mutex // guards the fields below
	ended  func(reason error)
	undo   func()
	isDone bool
}

// watched says which incarnation of a process a watch is about.
type watched struct {
	Incarnation uint64 // 0 for the present one
	Serves      bool   // not one whose init has not returned
}

// end calls the function, unless the watch was stopped.
func (w *watch) end(reason error) {
	w.mu.Lock()
	f := w.ended
	w.ended, w.isDone = nil, true
	w.mu.Unlock()
	if f != nil {
		f(reason)
	}
}

// stop ends the watch. It may be called twice.
func (w *watch) stop() {
	w.mu.Lock()
	undo := w.undo
	w.ended, w.undo, w.isDone = nil, nil, true
	w.mu.Unlock()
	if undo != nil {
		undo()
	}
}

// onStop says how the watch is undone where it is.
func (w *watch) onStop(undo func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isDone {
		w.undo = undo
	}
}

// Watch calls ended, once and on any goroutine, when the process has ended: it
// was stopped, crashed, is being restarted, or its node has ended or seems to
// have ended. Its functions have cleaned up by then, unless a supervisor gave
// it up or its node is out of reach. The reason wraps [ErrUnreachable]. If
// there is no such process ended is called soon. The address of a node itself
// (its process is empty) is watched for the end of the node.
//
// A notice may be wrong: a node that cannot be reached may be alive. It must
// not be the only thing that an exclusive right depends on; see package monitor
// for tokens. ended may be called before Watch returns, must not block, and is
// not called after stop has returned, except by a call under way.
func (a Address) Watch(ended func(reason error)) (stop func()) {
	if ended == nil {
		panic("rpc: Watch without a function")
	}
	return a.watch(watched{}, ended)
}

// watch is Watch for one incarnation of a process.
func (a Address) watch(of watched, ended func(reason error)) (stop func()) {
	w := &watch{watched: of, ended: ended}
	switch {
	case a.at == nil:
		w.end(a.errNowhere())
	case a.isHere():
		a.at.watchHere(w, a.process)
	default:
		a.at.watchAway(w, a)
	}
	return w.stop
}

// Watch is [Address.Watch] for a process: ended runs as a coroutine of p, in
// its turn.
func (p *Process) Watch(a Address, ended func(c coroutine.Context, reason error)) (stop func()) {
	if ended == nil {
		panic("rpc: Watch without a function")
	}
	return a.Watch(func(reason error) { p.Go(func(c coroutine.Context) { ended(c, reason) }) })
}

// watchHere watches a process of this node, or the node.
func (n *Node) watchHere(w *watch, process string) {
	if process == "" {
		n.mu.Lock()
		closed := n.closed
		if !closed {
			n.self[w] = struct{}{}
		}
		n.mu.Unlock()
		w.onStop(func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.self, w)
		})
		if closed {
			w.end(n.errClosed())
		}
		return
	}
	p, err := n.lookup(process)
	if err == nil {
		err = p.admit(w)
	}
	if err != nil {
		w.end(err)
	}
}

// admit adds a watch of the process, unless it has ended: its functions have
// cleaned up then.
func (p *Process) admit(w *watch) error {
	w.onStop(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, w)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.watches == nil:
		return p.over
	case w.Incarnation != 0 && w.Incarnation != p.incarnation:
		return fmt.Errorf("%w: process %s was restarted", ErrUnreachable, p.address)
	case w.Serves && !p.serves:
		return fmt.Errorf("%w: process %s is starting", ErrUnreachable, p.address)
	}
	p.watches[w] = struct{}{}
	return nil
}

// watchAway watches a process of another node.
func (n *Node) watchAway(w *watch, a Address) {
	var number uint64
	var p *peer
	if err := n.with(a.node, func(with *peer) {
		p, number = with, n.nextLocked()
		p.watches[number] = w
	}); err != nil {
		w.end(err)
		return
	}
	w.onStop(func() {
		if n.takeWatch(a.node, number) != nil && a.process != "" {
			_ = n.transmit(a.node, &transport.Message{Kind: kindUnwatch, Call: number})
		}
	})
	if a.process == "" {
		return // its node's end is all that counts
	}
	m := &transport.Message{Kind: kindWatch, Call: number, Process: a.process}
	if w.watched != (watched{}) {
		m.Body = w.watched
	}
	if err := n.transmit(a.node, m); err != nil {
		n.takeWatch(a.node, number)
		w.end(fmt.Errorf("%w: %w", ErrUnreachable, err))
	}
}

func (n *Node) takeWatch(node string, number uint64) *watch {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[node]
	if p == nil {
		return nil
	}
	w := p.watches[number]
	delete(p.watches, number)
	return w
}

// receiveWatch watches a process for another node.
func (n *Node) receiveWatch(from string, m *transport.Message) {
	number := m.Call
	of, _ := open[watched](m.Body, n) // the zero value if there is none
	w := &watch{watched: of, ended: func(error) {
		n.takeWatching(from, number)
		_ = n.transmit(from, &transport.Message{Kind: kindEnded, Call: number})
	}}
	isAdded := false
	if n.with(from, func(p *peer) { isAdded = n.addWatchingLocked(p, number, w) }) != nil {
		return
	}
	if !isAdded {
		n.complain(from, "it watches too many processes, see Config.MaxWatches", slog.Int("most", n.cfg.MaxWatches))
		_ = n.transmit(from, &transport.Message{Kind: kindEnded, Call: number})
		return
	}
	n.watchHere(w, m.Process)
}

func (n *Node) takeWatching(node string, number uint64) *watch {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[node]
	if p == nil {
		return nil
	}
	w := p.watching[number]
	delete(p.watching, number)
	return w
}
