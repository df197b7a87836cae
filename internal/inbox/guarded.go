package inbox

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/requests"
	"github.com/golda-dev/golda/stage/queue"
)

// GuardAccounts are the accounts of one method of a stage with guards.
type GuardAccounts struct {
	guard.Counters

	Method string
	Held   bool          // commands wait, and the guards hold back all of them
	Holds  uint64        // how often they began to
	Wait   time.Duration // for how long they did in all
	Run    time.Duration // of the commands that were current
	// During has, for other methods, for how long the method was held back while commands of the other were current.
	During map[string]time.Duration
}

// errGuardGoexit is the fault of a guard that ended its goroutine.
var errGuardGoexit = errors.New("it called runtime.Goexit")

// guarded is the queue of a stage with guards: a line for each method. It gives out one command at a time, the oldest one that
// the guards allow. A command is current from when it is given out until its handler has ended. The stage reports
// that end by [Inbox.Completed]; the inbox itself knows of commands that end without being handled.
//
// Guards are evaluated under the lock of the inbox: so a command is allowed and counted in one step.
type guarded struct {
	queue    *requests.Queue
	stage    string
	sees     map[string]bool // methods with guards that see the commands
	names    methodNames
	next     *requests.Request // that may be given out; nil if there is none
	looked   bool              // next is right: nothing has changed since
	failed   map[string]error  // guards that did not return in the last look, by method: what they let through crashes
	exited   map[string]error  // guards that have ended their goroutine, by method; they count as failed in the next look
	faults   []guardFault      // of commands that were given out, and are to crash
	profiles map[string]*guardProfile
	now      func() int64
	unlock   func()
	spare    []*guardedCommand
}

// guardFault is why a command is to crash.
type guardFault struct {
	method string
	cmd    any
	err    error
}

// guardedCommand is a command that waits.
type guardedCommand struct {
	requests.Request

	e      command.Envelope
	failed error // a guard did not return when it was asked about it
}

// guardProfile is where the time of one method went.
type guardProfile struct {
	held   bool
	since  int64    // when it was held back, if it is
	others []string // methods with current commands then

	holds   uint64
	wait    time.Duration
	current int
	run     time.Duration // and now·current − Σ when each became current
	during  map[string]time.Duration
}

// methodNames gives each method a number, from 1, by which the queue is told the method of a command: 0 is a command that did
// not say. It has a lock of its own, since commands are asked without the lock of the inbox.
type methodNames struct {
	mu    sync.RWMutex
	of    map[string]queue.Key
	names []string
}

func (m *methodNames) key(name string) queue.Key {
	m.mu.RLock()
	k, ok := m.of[name]
	m.mu.RUnlock()
	if ok {
		return k
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok = m.of[name]; !ok {
		m.names = append(m.names, name)
		k = queue.Key(len(m.names))
		m.of[name] = k
	}
	return k
}

func (m *methodNames) name(k queue.Key) string {
	if k == 0 {
		return ""
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.names[int(k)-1]
}

// newGuarded returns the queue of a stage. Now reads the pipeline's clock, and unlock releases the lock of the inbox.
func newGuarded(stage string, g *Guards, now func() int64, unlock func()) *guarded {
	q := &guarded{
		queue: requests.New(), stage: stage, sees: map[string]bool{}, names: methodNames{of: map[string]queue.Key{}},
		failed: map[string]error{}, exited: map[string]error{}, profiles: map[string]*guardProfile{}, now: now, unlock: unlock,
	}
	for _, s := range g.State {
		q.queue.Guard(s.Method, func(count func(string) guard.Counters) bool {
			return q.evaluate(s.Method, func() bool { return s.Guard(count) })
		})
	}
	for _, r := range g.Request {
		q.sees[r.Method] = true
		q.queue.RequestGuard(r.Method, func(c guard.Request, count func(string) guard.Counters) bool {
			return q.evaluate(r.Method, func() bool { return r.Guard(c, count) })
		})
	}
	return q
}

// evaluate calls a guard. A guard that panics counts as one that holds: the command crashes then, in the place of its handler. One
// that ends its goroutine cannot be stopped, but the lock is released. If that is a worker's goroutine, the command that the worker was
// about to handle may be lost, so the contract forbids it.
func (q *guarded) evaluate(method string, g func() bool) (holds bool) {
	if err := q.exited[method]; err != nil {
		delete(q.exited, method)
		q.failed[method] = err
	}
	if q.failed[method] != nil {
		return true // so that the command for which one guard has failed is the one that is let through
	}
	done := false
	defer func() {
		if done {
			return
		}
		if r := recover(); r != nil {
			q.failed[method], holds = fmt.Errorf("guard of %q panicked: %v", method, r), true
			return
		}
		q.exited[method] = fmt.Errorf("guard of %q: %w", method, errGuardGoexit)
		q.unlock()
	}()
	holds = g()
	done = true
	return holds
}

// look finds the next command that may be given out.
func (q *guarded) look() {
	if q.looked {
		return
	}
	clear(q.failed)
	q.next = q.queue.Candidate(nil, nil)
	q.looked = true
	if q.next != nil && q.failed[q.next.Method] != nil {
		entry(q.next).failed = q.failed[q.next.Method]
	}
	q.profile()
}

// stale has the guards evaluated again when it matters: something has changed that they may see.
func (q *guarded) stale() { q.looked = false }

// takeable is how many commands may be given out: the guards are asked again after each.
func (q *guarded) takeable() int {
	if q.look(); q.next == nil {
		return 0
	}
	return 1
}

// Len returns how many commands wait.
func (q *guarded) Len() int { return q.queue.Pending() }

func (q *guarded) make(e command.Envelope, k queue.Key) *requests.Request {
	var c *guardedCommand
	if n := len(q.spare); n > 0 {
		c, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		c = new(guardedCommand)
	}
	c.e = e
	c.Request.Request = guard.Request{Process: q.stage, Method: q.names.name(k)}
	if q.sees[c.Method] {
		c.Args = link.Bare(e.Load)
	}
	c.Value = c
	return &c.Request
}

// mostSpare is how many entries of the queue are kept for other commands.
const mostSpare = 256

// open returns the command of an entry that the queue has no more, and keeps the entry for another.
func (q *guarded) open(r *requests.Request) command.Envelope {
	c := entry(r)
	e := c.e
	*c = guardedCommand{}
	if len(q.spare) < mostSpare {
		q.spare = append(q.spare, c)
	}
	return e
}

func entry(r *requests.Request) *guardedCommand {
	c, _ := r.Value.(*guardedCommand)
	return c
}

// envelope returns the command of an entry.
func envelope(r *requests.Request) *command.Envelope { return &entry(r).e }

// Push adds a command at the end of its method's line.
func (q *guarded) Push(e command.Envelope, k queue.Key) {
	q.queue.Arrive(q.make(e, k))
	q.stale()
}

// PushAll adds commands in order.
func (q *guarded) PushAll(es []command.Envelope, keys []queue.Key) {
	for i := range es {
		q.Push(es[i], keyAt(keys, i))
	}
}

// PushFront takes commands back that were given out and not handled.
func (q *guarded) PushFront(es []command.Envelope, keys []queue.Key) {
	for i, e := range slices.Backward(es) {
		q.track(q.names.name(keyAt(keys, i)), -1)
		q.queue.Return(q.make(e, keyAt(keys, i)))
	}
	q.stale()
}

// PopInto gives out the next command that may be.
func (q *guarded) PopInto(dst []command.Envelope) int {
	if len(dst) == 0 || q.takeable() == 0 {
		return 0
	}
	r := q.next
	q.queue.Accept(r)
	q.track(r.Method, 1)
	method, failed := r.Method, entry(r).failed
	dst[0] = q.open(r)
	if failed != nil {
		q.faults = append(q.faults[max(len(q.faults)-mostFaults, 0):], guardFault{method, link.Bare(dst[0].Load), failed})
	}
	q.next = nil
	q.stale()
	return 1
}

// mostFaults is how many faults are kept of commands that have not come to their handlers. Some never do.
const mostFaults = 1024

// fault returns why a command that has come to its handler is to crash; nil if it is not.
func (q *guarded) fault(method string, cmd any) error {
	i := slices.IndexFunc(q.faults, func(f guardFault) bool { return f.method == method && reflect.DeepEqual(f.cmd, cmd) })
	if i < 0 {
		return nil
	}
	err := q.faults[i].err
	q.faults = slices.Delete(q.faults, i, i+1)
	return err
}

// Drop removes the command that has waited for longest.
func (q *guarded) Drop() command.Envelope {
	r := q.queue.Oldest()
	q.queue.Withdraw(r)
	q.next = nil
	q.stale()
	return q.open(r)
}

// At returns the command that has waited for longest, and nil for others: in which order they come out is not known.
func (q *guarded) At(i int) *command.Envelope {
	if i > 0 || q.Len() == 0 {
		return nil
	}
	return q.Oldest()
}

// Oldest returns the command that has waited for longest.
func (q *guarded) Oldest() *command.Envelope { return envelope(q.queue.Oldest()) }

// Count counts the commands for which so is true.
func (q *guarded) Count(so func(*command.Envelope) bool) (n int) {
	q.queue.Waiting(func(r *requests.Request) bool {
		if so(envelope(r)) {
			n++
		}
		return true
	})
	return n
}

// Drain empties the queue.
func (q *guarded) Drain() []command.Envelope {
	es := make([]command.Envelope, 0, q.Len())
	for q.Len() > 0 {
		es = append(es, q.Drop())
	}
	return es
}

// completed books that a command is not current any more: its handler has ended.
func (q *guarded) completed(method string) {
	q.queue.CompleteOne(method)
	q.track(method, -1)
	q.stale()
}

// cancelled books that a command which was given out has ended without having been handled.
func (q *guarded) cancelled(method string) {
	q.queue.Cancel(method)
	q.track(method, -1)
	q.stale()
}

// held is how many commands wait whose guards hold them back, as far as is known.
func (q *guarded) held() (n int) {
	q.queue.Methods(func(method string, c guard.Counters) {
		if p := q.profiles[method]; p != nil && p.held {
			n += c.Pending
		}
	})
	return n
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
	if p.current+more < 0 {
		return
	}
	p.current += more
	p.run -= time.Duration(more) * now
}

// profile notes which methods are held back from now on, and which are not any more.
func (q *guarded) profile() {
	q.queue.Methods(func(method string, c guard.Counters) {
		held := c.Pending > 0 && q.queue.Shut(method)
		p := q.profiles[method]
		switch {
		case p == nil && !held, p != nil && p.held == held:
		case held:
			p = q.of(method)
			p.held, p.since, p.others = true, q.now(), q.current()
			p.holds++
		default:
			p.add(q.now())
			p.held = false
		}
	})
}

// current returns the methods with commands that are current.
func (q *guarded) current() (methods []string) {
	q.queue.Methods(func(method string, c guard.Counters) {
		if c.Current > 0 {
			methods = append(methods, method)
		}
	})
	return methods
}

// add adds the time that a method has been held back.
func (p *guardProfile) add(now int64) {
	d := time.Duration(now - p.since)
	p.wait += d
	for _, method := range p.others {
		p.during[method] += d
	}
}

// accounts returns the accounts of the methods.
func (q *guarded) accounts(now int64) (all []GuardAccounts) {
	q.queue.Methods(func(method string, c guard.Counters) {
		a := GuardAccounts{Method: method, Counters: c}
		if p := q.profiles[method]; p != nil {
			then := *p
			then.during = maps.Clone(p.during)
			if then.held {
				then.add(now)
			}
			a.Held, a.Holds, a.Wait = then.held, then.holds, then.wait
			a.Run = then.run + time.Duration(then.current)*time.Duration(now)
			a.During = then.during
		}
		all = append(all, a)
	})
	return all
}
