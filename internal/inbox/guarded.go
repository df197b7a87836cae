package inbox

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/requests"
	"github.com/golda-dev/golda/internal/synchronize"
	"github.com/golda-dev/golda/stage/queue"
)

// errGuardGoexit is the fault of a guard that ended its goroutine.
var errGuardGoexit = errors.New("it called runtime.Goexit")

// guarded is the queue of a stage with guards: a line for each method. It gives out one command at a time, the oldest one that
// the guards allow. A command is current from when it is given out until its handler has ended. The stage reports
// that end by [Inbox.Completed]; the inbox itself knows of commands that end without being handled.
//
// Guards are evaluated under the lock of the inbox: so a command is allowed and counted in one step. Where synchronizers name the stage, it
// has a member, and their rules are asked and told under the board's lock, too: see package synchronize. All functions that do so are
// between enter and leave.
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

	coordinated
}

// coordinated is what the queue of a stage has that synchronizers name.
type coordinated struct {
	member  *synchronize.Member // nil: none does
	depth   int                 // how many functions have entered
	exiting bool                // a function of the user has ended the goroutine: the inbox is to be unlocked
	due     *requests.Request   // was granted to an atomic rule, and is given out first; it does not wait any more. Nil if there is none
	by      map[string]string   // what holds a method back, since the last look; guards are not in it
	able    func() bool         // reports whether what is offered could be given out
	wasAble bool                // when the offers were made
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

	e       command.Envelope
	failed  error // a guard or a rule did not return when it was asked about it
	matched bool  // events is known
	events  []*synchronize.Event
}

// guardProfile is where the time of one method went.
type guardProfile struct {
	held   bool
	since  int64    // when it was held back, if it is
	others []string // methods with current commands then
	by     string   // what holds it back

	holds   uint64
	wait    time.Duration
	current int
	run     time.Duration // and now·current − Σ when each became current
	during  map[string]time.Duration
	waitBy  map[string]time.Duration
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
			return q.evaluate("guard", s.Method, func() bool { return s.Guard(count) })
		})
	}
	for _, r := range g.Request {
		q.sees[r.Method] = true
		q.queue.RequestGuard(r.Method, func(c guard.Request, count func(string) guard.Counters) bool {
			return q.evaluate("guard", r.Method, func() bool { return r.Guard(c, count) })
		})
	}
	return q
}

// evaluate calls a guard. A guard that panics counts as one that holds: the command crashes then, in the place of its handler. One
// that ends its goroutine cannot be stopped, but the lock is released. If that is a worker's goroutine, the command that the worker was
// about to handle may be lost, so the contract forbids it.
func (q *guarded) evaluate(what, method string, g func() bool) (holds bool) {
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
			q.failed[method], holds = fmt.Errorf("%s of %q panicked: %v", what, method, r), true
			return
		}
		q.exited[method] = fmt.Errorf("%s of %q: %w", what, method, errGuardGoexit)
		q.exiting = true
	}()
	holds = g()
	done = true
	return holds
}

func entry(r *requests.Request) *guardedCommand {
	c, _ := r.Value.(*guardedCommand)
	return c
}

// envelope returns the command of an entry.
func envelope(r *requests.Request) *command.Envelope { return &entry(r).e }

// enter locks the board, unless a function that calls this one has, and takes over what was granted meanwhile.
func (q *guarded) enter() {
	if q.depth++; q.depth > 1 || q.member == nil {
		return
	}
	q.member.Lock()
	q.takeGranted()
}

// takeGranted takes over what an atomic rule has granted. It is counted at the board already.
func (q *guarded) takeGranted() {
	g := q.member.Granted()
	if g == nil {
		return
	}
	q.due, _ = g.Key.(*requests.Request)
	entry(q.due).failed = g.Err
	q.queue.Accept(q.due)
	q.track(q.due.Method, 1)
	q.looked = false
}

// leave unlocks the board, and the inbox too if a function of the user has ended the goroutine. It is deferred wherever such functions
// are called.
func (q *guarded) leave() {
	if q.depth--; q.depth > 0 {
		return
	}
	if q.member != nil {
		q.member.Unlock()
	}
	if q.exiting {
		q.exiting = false
		q.unlock()
	}
}

// coordinate makes the stage a member of a board. The inbox has not been opened.
func (q *guarded) coordinate(m *synchronize.Member, able func() bool) {
	q.member, q.able, q.by = m, able, map[string]string{}
	m.Methods(func(method string, checked, sees bool) {
		q.sees[method] = q.sees[method] || sees
		if !checked {
			return
		}
		q.queue.RequestGuard(method, func(r guard.Request, _ func(string) guard.Counters) bool {
			return q.evaluate("rule of a synchronizer", method, func() bool {
				by := m.Refuses(r)
				q.heldBy(method, by)
				return by == ""
			})
		})
	})
}

func (q *guarded) heldBy(method, by string) {
	if by != "" {
		q.by[method] = by
	}
}

// lookAtRules finds the next command that guards and synchronizers allow, and offers commands to atomic rules.
func (q *guarded) lookAtRules() {
	m := q.member
	clear(q.by)
	m.Look()
	q.next = q.queue.Candidate(q.closed, q.isForOthers)
	m.Looked(func(method string) bool { return q.queue.Count(method).Pending > 0 })
	if !m.Offers() {
		return
	}
	offered := false
	defer func() {
		if !offered {
			m.Retract() // a function of the user has ended the goroutine
		}
	}()
	m.Offering()
	q.wasAble = q.able()
	if q.wasAble && q.due == nil {
		m.EventMethods(q.offer)
	}
	q.callRules(m.Offered)
	q.takeGranted()
	offered = true
}

// callRules calls functions that call those of users. They return, even if one of these panics, unless it ends the goroutine.
func (q *guarded) callRules(f func()) {
	returned := false
	defer func() { q.exiting = q.exiting || !returned }()
	f()
	returned = true
}

// closed reports whether counters hold back all commands of a method, or atomic rules do.
func (q *guarded) closed(method string) bool {
	by := q.member.Closed(method)
	q.heldBy(method, by)
	return by != ""
}

// isForOthers reports whether a command is given out with others only: an atomic rule has an event for it.
func (q *guarded) isForOthers(r *requests.Request) bool {
	if !q.member.Patterned(r.Method) {
		return false
	}
	c := entry(r)
	q.match(c)
	by := synchronize.Together(c.events)
	if by == "" || c.failed != nil {
		return false
	}
	q.heldBy(r.Method, by)
	return true
}

// match finds the events that a command is of, once.
func (q *guarded) match(c *guardedCommand) {
	if c.matched {
		return
	}
	c.matched = true
	q.callRules(func() { c.events, c.failed = q.member.Events(c.Request.Request) })
}

// offer offers the oldest commands of a method that the guards allow to the events of atomic rules.
func (q *guarded) offer(method string) {
	open := q.queue.Open(method)
	q.queue.Line(method, func(r *requests.Request) bool {
		c := entry(r)
		q.match(c)
		allowed := open && len(c.events) > 0 && q.queue.Allows(r)
		if err := q.failed[method]; err != nil && c.failed == nil { // the command crashes, without the others
			c.failed = err
		}
		if c.failed != nil {
			if q.next == nil || r.Number() < q.next.Number() {
				q.next = r
			}
			return false
		}
		for _, e := range c.events {
			if !e.Wants(allowed) {
				continue
			}
			e.Wait()
			if allowed {
				e.Offer(r, r.Request)
			}
		}
		return q.member.Wants(method, open)
	})
}

// stale has the guards evaluated again when it matters: something has changed that they may see.
func (q *guarded) stale() {
	if q.looked && q.member != nil && q.member.Offers() {
		q.enter()
		q.member.Retract()
		q.leave()
	}
	q.looked = false
}

// completed books that a command is not current any more: its handler has ended. The error is that a trigger did not return.
func (q *guarded) completed(method string, cmd any) error {
	return q.ended(method, cmd, (*requests.Queue).CompleteOne)
}

// cancelled books that a command which was given out has ended without having been handled.
func (q *guarded) cancelled(method string, cmd any) {
	_ = q.ended(method, cmd, (*requests.Queue).Cancel) // the command has ended, for another reason
}

func (q *guarded) ended(method string, cmd any, book func(*requests.Queue, string)) error {
	q.enter()
	defer q.leave()
	if q.queue.Count(method).Current == 0 {
		return nil
	}
	book(q.queue, method)
	q.track(method, -1)
	q.stale()
	if q.member == nil {
		return nil
	}
	var err error
	q.callRules(func() {
		err = q.member.Completed(guard.Request{Process: q.stage, Method: method, Args: cmd}, q.queue.Count(method))
	})
	return err
}

// of returns the profile of a method.
func (q *guarded) of(method string) *guardProfile {
	p := q.profiles[method]
	if p == nil {
		p = &guardProfile{during: map[string]time.Duration{}, waitBy: map[string]time.Duration{}}
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
