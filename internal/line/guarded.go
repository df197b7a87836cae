package line

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/plain/apart"
	"github.com/golda-dev/golda/internal/requests"
)

// errGuardGoexit is the fault of a guard that ended its goroutine.
var errGuardGoexit = errors.New("it called runtime.Goexit")

// guarded is the queue of a stage with guards: a line for each method. It gives
// out one command at a time, the oldest one that the guards allow. A command is
// given out with a [Permit], and is current until the permit is given back.
//
// Guards are evaluated under the lock of the inbox, so a command is allowed and
// counted in one step. They see counters only.
type guarded struct {
	Base

	queue    *requests.Queue
	stage    string
	method   func(load any) string
	names    methodNames
	next     *requests.Request // that may be given out; nil if there is none
	looked   bool              // next is right: nothing has changed since
	failed   map[string]error  // guards that did not return in the last look, by method: the commands that they let through crash
	wary     bool              // a guard has ended its goroutine: they are evaluated on goroutines of their own
	given    Permit            // of the command that was given out last, until its worker has it
	profiles map[string]*guardProfile
	now      func() int64
	unlock   func()
	spare    []*guardedCommand
}

// guardedCommand is a command that waits.
type guardedCommand struct {
	requests.Request

	e     command.Envelope
	fault error // a guard did not return when it was asked about the command
}

// guardProfile has the times of one method.
type guardProfile struct {
	held   bool
	since  int64    // when the method was held back, if it is
	others []string // methods with current commands then

	holds   uint64
	wait    time.Duration
	current int
	run     time.Duration // and now·current − Σ when each became current
	during  map[string]time.Duration
}

// methodNames gives each method a number, from 1, by which the queue is told
// the method of a command: 0 is a command that did not say. It has a lock of
// its own, since commands are asked without the lock of the inbox. To read a
// name takes no lock: that is done with the inbox's.
type methodNames struct {
	mu    sync.RWMutex
	of    map[string]uint64
	names atomic.Pointer[[]string] // by number, less one; grows with mu
}

func (m *methodNames) key(name string) uint64 {
	m.mu.RLock()
	k, ok := m.of[name]
	m.mu.RUnlock()
	if ok {
		return k
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok = m.of[name]; !ok {
		var names []string
		if old := m.names.Load(); old != nil {
			names = *old
		}
		names = append(names, name) // readers of the old slice do not read the place of the new name
		m.names.Store(&names)
		k = uint64(len(names))
		m.of[name] = k
	}
	return k
}

func (m *methodNames) name(k uint64) string {
	if k == 0 {
		return ""
	}
	return (*m.names.Load())[int(k)-1]
}

// Guards are the guards of a stage's methods, in the order in which they were
// given. Method is the method of a command, which is given as envelopes have
// it; it calls code of users.
type Guards struct {
	Method func(load any) string
	State  []StateGuard
}

// StateGuard is a guard of a method that sees no commands.
type StateGuard struct {
	Method string
	Guard  guard.Guard
}

// Guarded returns the line of a stage with guards. Now reads the pipeline's
// clock, and unlock releases the lock under which the line is called: a guard
// that ends the goroutine would leave it locked for ever.
func Guarded(stage string, g *Guards, now func() int64, unlock func()) Line {
	q := &guarded{
		queue: requests.New(), stage: stage, method: g.Method, names: methodNames{of: map[string]uint64{}},
		failed: map[string]error{}, profiles: map[string]*guardProfile{}, now: now, unlock: unlock,
	}
	for _, s := range g.State {
		q.queue.Guard(s.Method, func(count func(string) guard.Counters) bool { return q.evaluate(s, count) })
	}
	return q
}

// evaluate calls a guard. A guard that does not return counts as one that
// holds: the command crashes then, in the place of its handler.
func (q *guarded) evaluate(s StateGuard, count func(string) guard.Counters) (holds bool) {
	if q.failed[s.Method] != nil {
		return true // so that the line lets the command through for which one guard has failed
	}
	if !q.wary {
		return q.evaluateHere(s, count)
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		done <- q.call(s, count)
	}()
	holds, returned := <-done
	if !returned {
		q.failed[s.Method], holds = fmt.Errorf("guard of %q: %w", s.Method, errGuardGoexit), true
	}
	return holds
}

// evaluateHere calls a guard on this goroutine. A guard that ends the goroutine
// cannot be stopped: nothing is given out, the lock is released, and from then
// on guards are evaluated on goroutines of their own, so that the same guard
// does not end the next goroutine too.
func (q *guarded) evaluateHere(s StateGuard, count func(string) guard.Counters) bool {
	exits := true
	defer func() {
		if exits {
			q.wary = true
			q.unlock()
		}
	}()
	holds := q.call(s, count)
	exits = false
	return holds
}

// call calls a guard, and recovers its panic.
func (q *guarded) call(s StateGuard, count func(string) guard.Counters) (holds bool) {
	defer func() {
		if r := recover(); r != nil {
			q.failed[s.Method], holds = fmt.Errorf("guard of %q panicked: %s", s.Method, apart.Text(r)), true
		}
	}()
	return s.Guard(count)
}

func entry(r *requests.Request) *guardedCommand {
	c, _ := r.Value.(*guardedCommand)
	return c
}

// envelope returns the command of an entry.
func envelope(r *requests.Request) *command.Envelope { return &entry(r).e }

// Reconsider has the guards evaluated again when it matters: something has
// changed that they may see.
func (q *guarded) Reconsider() { q.looked = false }

// Complete books that a command is not current any more: its handler has ended.
func (q *guarded) Complete(p Permit) { q.ended(p, (*requests.Queue).CompleteOne) }

// Give gives a worker the permit of the command in its batch that has not been
// started: there is at most one.
func (q *guarded) Give(p *Part, _ int) *Part {
	p = p.orNew()
	p.permit, q.given = q.given, Permit{}
	return p
}

// Cancel gives back the permit that a worker still has: no handler of its batch
// has begun with it, and none will.
func (q *guarded) Cancel(p *Part) { q.ended(p.TakePermit(), (*requests.Queue).Cancel) }

func (q *guarded) ended(p Permit, book func(*requests.Queue, string)) {
	if !p.valid {
		return
	}
	book(q.queue, p.method)
	q.track(p.method, -1)
	q.Reconsider()
}

// of returns the profile of a method.
func (q *guarded) of(method string) *guardProfile {
	p := q.profiles[method]
	if p == nil {
		p = &guardProfile{during: map[string]time.Duration{}}
		q.profiles[method] = p
	}
	return p
}

// track notes that a command has become current, or is not current any more.
func (q *guarded) track(method string, more int) {
	p, now := q.of(method), time.Duration(q.now())
	p.current += more
	p.run -= time.Duration(more) * now
}
