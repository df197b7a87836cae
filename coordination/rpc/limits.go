package rpc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/transaction"
	"github.com/golda-dev/golda/stage"
)

// complaintPause is the least time between two log lines about forbidden
// messages of other nodes.
const complaintPause = 10 * time.Second

// complain logs that a message of another node was dropped, unless another line
// was logged a short while ago.
func (n *Node) complain(from, what string, about ...any) {
	now := time.Now()
	n.mu.Lock()
	n.dropped++
	count, log := n.dropped, now.Sub(n.complained) >= complaintPause
	if log {
		n.complained, n.dropped = now, 0
	}
	n.mu.Unlock()
	if log {
		n.cfg.Logger.Warn("rpc: messages of other nodes were dropped; the last one: "+what,
			append([]any{slog.String("node", n.name), slog.String("from", from), slog.Int("dropped", count)}, about...)...)
	}
}

// short returns a name of another node for an error or the log: the first
// maxName bytes if it is longer.
func short(name string) string {
	if len(name) <= maxName {
		return name
	}
	return name[:maxName] + "…"
}

// receiveParty takes a message between processes and synchronizers from another
// node, which must be the node of its sender: answers are sent to that node,
// and it is watched.
func (n *Node) receiveParty(from string, m *transport.Message) {
	e, err := open[envelope](m.Body, n)
	if err != nil {
		return
	}
	if n.addressOf(e.From).node != from {
		n.complain(from, "its sender is a process of a third node", slog.String("sender", e.From[:min(len(e.From), maxName)]))
		return
	}
	if e.Kind == transaction.Install {
		if len(e.Methods) > 0 && !n.takes(m.Process, e) {
			return
		}
		e = bare(e)
	} else if p, err := n.lookup(m.Process); err == nil && p.waiting.Load() > maxParty {
		n.complain(from, "too much waits for the process", slog.String("process", p.text))
		return
	}
	if a, ok := e.Request.Args.(*arguments); ok {
		a.node = n
	}
	n.receiveCoordination(m.Process, e)
}

// load is the load of the requests of another node that are under way. It is
// shared by all nodes of one name, until none is under way, so that a node gets
// no higher limit by connecting anew.
type load struct{ requests, bytes int }

// errFull is the error of a request that a node does not take.
// [stage.Overloaded] knows it.
type errFull struct {
	node, limit string
	most        int
}

func (e errFull) Error() string {
	return fmt.Sprintf("rpc: node %q has as many requests of the caller's node as it takes: Config.%s is %d", e.node, e.limit, e.most)
}

func (errFull) Unwrap() error { return stage.ErrFull }

// allow books a request of another node as under way, until it has ended, if
// the limits allow it. With a number a reply is wanted.
func (n *Node) allow(from string, r *request, number uint64) (err error) {
	encoded, _ := r.body.(transport.Encoded)
	size := len(encoded) + r.carried.size()
	failed := n.with(from, func(p *peer) {
		l := n.loads[from]
		switch {
		case l.requests >= n.cfg.MaxRequests:
			err = errFull{n.name, "MaxRequests", n.cfg.MaxRequests}
		case l.requests > 0 && size > n.cfg.MaxRequestBytes-l.bytes:
			err = errFull{n.name, "MaxRequestBytes", n.cfg.MaxRequestBytes}
		case number != 0 && p.served[number] != nil:
			err = errTwice
		default:
			n.loads[from] = load{l.requests + 1, l.bytes + size}
			r.ended = func() { n.unload(from, size) }
			if number != 0 {
				p.served[number] = r
			}
		}
	})
	return cmp.Or(failed, err)
}

// errTwice is the error of a request with the number of another one that is
// under way.
var errTwice = errors.New("rpc: the number of the call is that of another one")

// unload books that a request of another node has ended.
func (n *Node) unload(from string, size int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.loads[from]
	l.requests, l.bytes = l.requests-1, l.bytes-size
	if l.requests == 0 {
		delete(n.loads, from)
		return
	}
	n.loads[from] = l
}

// refuse answers a request that is not taken. One whose sender wants no reply
// is logged, and so is one that would answer another.
func (n *Node) refuse(from string, number uint64, err error) {
	if number == 0 || errors.Is(err, errTwice) {
		n.complain(from, "a request was refused", slog.Any("error", err))
		return
	}
	n.reply(from, number, nil, err)
}

// addWatchingLocked adds a watch of another node, unless it has too many or the
// number is in use.
func (n *Node) addWatchingLocked(p *peer, number uint64, w *watch) bool {
	if len(p.watching) >= n.cfg.MaxWatches || p.watching[number] != nil {
		return false
	}
	p.watching[number] = w
	return true
}

// maxParty is how many entries of a process may wait when a message of a
// synchronizer comes from another node. More are no traffic of the protocol,
// whose messages each wait for another.
const maxParty = 1 << 16

// takes reports whether the rules of a synchronizer of another node may be
// kept. If not, the synchronizer is notified.
func (n *Node) takes(process string, e envelope) bool {
	reason := n.unfit(process, e)
	if reason == "" {
		return true
	}
	n.complain(n.addressOf(e.From).node, "rules were refused", slog.String("reason", reason))
	if len(e.From) <= maxName {
		n.coordinate(envelope{Message: transaction.Message{
			Kind: transaction.RulesRefused, From: n.Address(process).String(), To: e.From, Epoch: e.Epoch, Rule: reason,
		}})
	}
	return false
}

// unfit returns why rules of a synchronizer of another node are not kept, or
// "".
func (n *Node) unfit(process string, e envelope) string {
	longest := max(len(process), len(e.From), len(e.To), len(e.ID.Process))
	for name := range e.Methods {
		longest = max(longest, len(name))
	}
	if longest > maxName {
		return fmt.Sprintf("a name in them has %d bytes, the most is %d", longest, maxName)
	}
	from := n.addressOf(e.From).node
	n.mu.Lock()
	defer n.mu.Unlock()
	kept := len(e.Methods)
	for to, rules := range n.rules {
		for by, r := range rules {
			if n.addressOf(by).node == from && (to != process || by != e.From) {
				kept += len(r.Methods)
			}
		}
	}
	if kept > n.cfg.MaxRules {
		return fmt.Sprintf("node %q would keep rules for %d functions: Config.MaxRules is %d", n.name, kept, n.cfg.MaxRules)
	}
	return ""
}

// bare returns the part of a synchronizer's message with rules that the node
// keeps.
func bare(e envelope) envelope {
	return envelope{Incarnation: e.Incarnation, Message: transaction.Message{
		Kind: e.Kind, From: e.From, To: e.To, Epoch: e.Epoch, ID: e.ID, Methods: e.Methods,
	}}
}

// maxName is the length of the longest name of a process or a function in the
// rules of another node, and in the log.
const maxName = 1024
