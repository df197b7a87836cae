package actor

import (
	"sync"

	proto "github.com/asynkron/protoactor-go/actor"
)

// Endpoint is a process without an actor: a message to its PID is passed to a
// function, in the sender's goroutine. The PID stays the same however often the
// actors behind it are restarted.
type Endpoint struct {
	system *System
	pid    *PID
	in     func(message any, sender *PID)

	mu       sync.Mutex // guards watchers and closed
	watchers map[string]*PID
	closed   bool
}

var _ proto.Process = (*Endpoint)(nil)

// OpenEndpoint registers an endpoint under a name. It reports false if the name
// is taken.
func OpenEndpoint(s *System, name string, in func(message any, sender *PID)) (*Endpoint, bool) {
	d := &Endpoint{system: s, in: in, watchers: map[string]*PID{}}
	pid, ok := s.ProcessRegistry.Add(d, name)
	d.pid = pid
	return d, ok
}

// PID returns the endpoint's address.
func (d *Endpoint) PID() *PID { return d.pid }

// SendUserMessage passes a message to the endpoint's function.
func (d *Endpoint) SendUserMessage(_ *PID, message any) {
	_, msg, sender := proto.UnwrapEnvelope(message)
	switch m := msg.(type) {
	case proto.AutoRespond: // protoactor's own request whether the process exists
		if sender != nil {
			d.Reply(sender, m.GetAutoResponse(autoContext{pid: d.pid}))
		}
	case *proto.PoisonPill: // a pipeline ends its stages, senders must not
	default:
		d.in(msg, sender)
	}
}

// SendSystemMessage maintains the list of watchers.
func (d *Endpoint) SendSystemMessage(_ *PID, message any) {
	switch m := message.(type) {
	case *proto.Watch:
		d.mu.Lock()
		closed := d.closed
		if !closed {
			d.watchers[m.Watcher.String()] = m.Watcher
		}
		d.mu.Unlock()
		if closed {
			d.notifyEnd(m.Watcher)
		}
	case *proto.Unwatch:
		d.mu.Lock()
		delete(d.watchers, m.Watcher.String())
		d.mu.Unlock()
	}
}

// Stop does nothing: a pipeline ends its stages, senders must not.
func (d *Endpoint) Stop(*PID) {}

// Close removes the endpoint from the registry and notifies its watchers.
func (d *Endpoint) Close() {
	d.mu.Lock()
	watchers := d.watchers
	d.watchers, d.closed = nil, true
	d.mu.Unlock()
	d.system.ProcessRegistry.Remove(d.pid)
	for _, w := range watchers {
		d.notifyEnd(w)
	}
}

func (d *Endpoint) notifyEnd(watcher *PID) {
	if p, ok := d.system.ProcessRegistry.Get(watcher); ok {
		p.SendSystemMessage(watcher, &proto.Terminated{Who: d.pid})
	}
}

// Reply answers a request.
func (d *Endpoint) Reply(to *PID, message any) { d.system.Root.Send(to, message) }

// autoContext is the part of a context that an automatic response uses.
type autoContext struct {
	proto.Context
	pid *PID
}

func (c autoContext) Self() *PID { return c.pid }
