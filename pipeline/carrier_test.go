package pipeline_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	"github.com/golda-dev/golda/pipeline/remote"
	"github.com/golda-dev/golda/stage"
)

// broker keeps what processes send to one another, in memory. It follows the promises of remote.Line.
type broker struct {
	mu      sync.Mutex
	changed chan struct{} // closed at each change
	lines   map[string]*brokerLine
	away    bool // Send waits
}

// brokerLine is what the broker has for one stage.
type brokerLine struct {
	waiting []*brokerMessage
	flying  map[*brokerMessage]*brokerProcess
	owners  map[uint64]*brokerProcess // of the keys that have messages in flight

	sent, done, buried int
}

type brokerMessage struct {
	cmd   any
	key   uint64
	keyed bool
	tries int
}

func newBroker() *broker {
	return &broker{changed: make(chan struct{}), lines: map[string]*brokerLine{}}
}

func (b *broker) changeLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// brokerProcess is the carrier of one process.
type brokerProcess struct {
	*broker

	killed bool // guarded by the broker's lock
}

func (b *broker) process() *brokerProcess { return &brokerProcess{broker: b} }

var errKilled = errors.New("the process is killed")

// kill cuts a process off: what it has in flight is fed to others, and the broker does not hear it any more.
func (p *brokerProcess) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	for _, l := range p.lines {
		for m, by := range l.flying {
			if by == p {
				l.backLocked(m)
			}
		}
	}
	p.changeLocked()
}

func (l *brokerLine) backLocked(m *brokerMessage) {
	delete(l.flying, m)
	if m.keyed {
		delete(l.owners, m.key)
		l.waiting = slices.Insert(l.waiting, 0, m) // it is the first of its key
		return
	}
	l.waiting = append(l.waiting, m)
}

func (p *brokerProcess) Line(name string, _ reflect.Type, key func(any) uint64) (remote.Line, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines[name] == nil {
		p.lines[name] = &brokerLine{flying: map[*brokerMessage]*brokerProcess{}, owners: map[uint64]*brokerProcess{}}
	}
	return &brokerEnd{p, p.lines[name], key}, nil
}

// brokerEnd is the end of a line in a process.
type brokerEnd struct {
	*brokerProcess

	line *brokerLine
	key  func(any) uint64
}

func (e *brokerEnd) Open(context.Context) error { return nil }

func (e *brokerEnd) Send(ctx context.Context, cmds []any) []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.broker.away && ctx.Err() == nil {
		changed := e.changed
		e.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		e.mu.Lock()
	}
	var err error
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case e.killed:
		err = errKilled
	}
	if err != nil {
		return slices.Repeat([]error{err}, len(cmds))
	}
	for _, cmd := range cmds {
		m := &brokerMessage{cmd: cmd, keyed: e.key != nil}
		if m.keyed {
			m.key = e.key(cmd)
		}
		e.line.waiting = append(e.line.waiting, m)
		e.line.sent++
	}
	e.changeLocked()
	return nil
}

func (e *brokerEnd) Feed(ctx context.Context, submit func(any, func(error)) error) error {
	for {
		m := e.take(ctx)
		if m == nil {
			return context.Cause(ctx)
		}
		if err := submit(m.cmd, func(err error) { e.ended(m, err) }); err != nil {
			e.ended(m, stage.ErrStopped)
			return err
		}
	}
}

// take waits for a message.
func (e *brokerEnd) take(ctx context.Context) *brokerMessage {
	e.mu.Lock()
	defer e.mu.Unlock()
	for ctx.Err() == nil {
		if !e.killed {
			i := slices.IndexFunc(e.line.waiting, func(m *brokerMessage) bool { return !m.keyed || e.line.owners[m.key] == nil })
			if i >= 0 {
				m := e.line.waiting[i]
				e.line.waiting = slices.Delete(e.line.waiting, i, i+1)
				e.line.flying[m] = e.brokerProcess
				if m.keyed {
					e.line.owners[m.key] = e.brokerProcess
				}
				return m
			}
		}
		changed := e.changed
		e.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		e.mu.Lock()
	}
	return nil
}

func (e *brokerEnd) ended(m *brokerMessage, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.line.flying[m] != e.brokerProcess || e.killed {
		return
	}
	switch {
	case err == nil:
		delete(e.line.flying, m)
		delete(e.line.owners, m.key)
		e.line.done++
	case errors.Is(err, stage.ErrStopped):
		e.line.backLocked(m)
	default:
		if m.tries++; m.tries < 10 {
			e.line.backLocked(m)
			break
		}
		delete(e.line.flying, m)
		delete(e.line.owners, m.key)
		e.line.buried++
	}
	e.changeLocked()
}

// setAway has Send wait, or go on.
func (b *broker) setAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
	b.changeLocked()
}

// left is how many messages have not ended. It also checks the law of each line.
func (b *broker) left() (n int, balanced bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	balanced = true
	for _, l := range b.lines {
		open := len(l.waiting) + len(l.flying)
		n += open
		balanced = balanced && l.sent == l.done+l.buried+open
	}
	return n, balanced
}

// of returns what was sent to a stage, and what was given up.
func (b *broker) of(name string) (sent, buried int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.lines[name]; l != nil {
		return l.sent, l.buried
	}
	return 0, 0
}
