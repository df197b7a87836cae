package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/requests"
	"github.com/golda-dev/golda/internal/transaction"
	"github.com/golda-dev/golda/supervisor"
)

// Process is an actor that runs functions as coroutines, one at a time: the
// next request is served when a function has returned or is suspended. After a
// restart it is another Process, whose init has run again.
//
// If not said otherwise, the methods are called by init, and by functions of
// the process.
type Process struct {
	node    *Node
	slot    *slot
	address Address
	text    string // the address
	host    *coro.Host
	box     *actor.Mailbox
	ctx     context.Context
	cancel  context.CancelCauseFunc
	system  *actor.System // runs the actor
	pid     *actor.PID    // of the actor

	// The fields below belong to the goroutine that runs the actor.
	functions map[string]*function
	queue     *requests.Queue

	rules        *transaction.Process // nil if no synchronizer has rules for the process, or it is one
	coordination *coordination        // nil likewise, but for a synchronizer
	warned       time.Time            // when rules of another node for unknown functions were logged

	waiting atomic.Int64 // entries that wait
	// mu guards the fields below, and the fields of requests that say so.
	mu      sync.Mutex
	entries []entry
	spare   []entry // an empty slice to be used again
	open    map[*request]struct{}
	watches map[*watch]struct{} // nil when it has ended
	serves  bool                // init has returned
	over    error               // why it can be reached no more; its functions may still clean up

	incarnation uint64 // written by the goroutine that runs the actor, from when the process has its name
}

// slot is a process through all its incarnations.
type slot struct {
	name string
	init func(p *Process) error
	book *rulebook // if it is a synchronizer
}

// entry is something to do for a process.
type entry struct {
	task *coro.Task // to be resumed
	r    *request   // has arrived
	gone *request   // its caller is gone
	do   func()     // anything else
}

// request is one call of a function, from the side of the process. Functions
// that the process itself has started are requests, too.
type request struct {
	order
	process *Process
	caller  *call                      // of the same node; nil if it is not, or does not wait
	reply   func(value any, err error) // to a caller of another node; nil likewise
	from    string                     // the node that has sent it; empty if it is of this node
	// job is the function to run, if the request is not a call.
	job   func(c coroutine.Context)
	ended func() // called once when the request is over, if it was accepted; may be nil

	function *function
	context  functionContext
	queued   requests.Request
	value    any
	err      error

	task *coro.Task // guarded by process.mu
	gone error      // guarded by process.mu; why the caller is gone
}

// Child returns a process as a child of a supervisor, for its specification:
// [supervisor.Spec] restarts it as it does any child. [Node.Address] returns
// its address, which all restarts keep. With each restart init runs again, on a
// new Process; requests that had not been answered fail with [ErrUnreachable].
func (n *Node) Child(name string, init func(p *Process) error) supervisor.Child {
	return n.child(&slot{name: name, init: init})
}

func (n *Node) child(s *slot) supervisor.Child {
	return supervisor.Child{
		Name: s.name,
		Spawn: func(by supervisor.Spawner, id string, ready func(error)) (*supervisor.PID, error) {
			switch {
			case s.name == "":
				return nil, errors.New("rpc: a process has no name")
			case s.init == nil:
				return nil, errors.New("init is nil")
			}
			p := n.newProcess(s)
			return actor.Spawn(by, id, p.box, func() actor.Actor { return &body{p, ready} })
		},
	}
}

func (n *Node) newProcess(s *slot) *Process {
	p := &Process{
		node: n, slot: s, address: n.Address(s.name),
		functions: map[string]*function{}, queue: requests.New(),
		open: map[*request]struct{}{}, watches: map[*watch]struct{}{},
	}
	p.text = p.address.String()
	p.box = actor.NewMailbox(feed{p})
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.host = coro.New(coro.Config{Ready: func(t *coro.Task) { p.post(entry{task: t}) }, Ended: p.ended})
	return p
}

// feed gives the actor a turn when there is something to do.
type feed struct{ p *Process }

func (f feed) Ready() bool { return f.p.waiting.Load() > 0 }
func (f feed) Len() int    { return int(f.p.waiting.Load()) }

// body is the actor of a process.
type body struct {
	p     *Process
	ready func(error)
}

// Receive handles a message to the process's actor.
func (b *body) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		b.p.system, b.p.pid = ctx.ActorSystem(), ctx.Self()
		b.start()
	case *actor.Turn:
		b.p.turn()
	case *actor.Stopping:
		b.p.end()
	}
}

// start runs init, and reports how it went. The supervisor stops a process
// whose init has failed.
func (b *body) start() {
	err := coroutine.ErrGoexit // stays if init ends the goroutine
	defer func() {
		if v := recover(); v != nil {
			err = &coroutine.PanicError{Value: v, Stack: debug.Stack()}
		}
		b.ready(err)
	}()
	if taken := b.p.node.enter(b.p); taken != nil {
		err = taken
		return
	}
	if err = b.p.slot.init(b.p); err == nil {
		err = b.p.checkGuards()
	}
	if err != nil {
		return
	}
	for _, e := range b.p.node.begin(b.p) {
		b.p.coordinate(e)
	}
}

// Address returns the address of the process. Any goroutine may call it.
func (p *Process) Address() Address { return p.address }

// Node returns the node of the process. Any goroutine may call it.
func (p *Process) Node() *Node { return p.node }

// Go runs f as a coroutine of the process. f first runs in a later turn; it
// does not run if the process has ended. Its context ends when the process
// ends. A panic of f is logged. Any goroutine may call Go.
func (p *Process) Go(f func(c coroutine.Context)) {
	if f == nil {
		panic("rpc: Go without a function")
	}
	p.post(entry{r: &request{process: p, job: f}})
}

// Guard holds back the requests of a method while g does not hold. A method may
// have several guards; all must hold. See package guard for when they are
// evaluated. A guard that panics crashes the process.
//
// A process does not start if it has a guard of a method that is none of its
// functions when init has returned. Later, Guard panics for such a method.
func (p *Process) Guard(method string, g guard.Guard) {
	p.checkGuard(method, g == nil)
	p.queue.Guard(method, g)
}

// RequestGuard is [Process.Guard] for a guard that sees the request: its Args
// are the caller's arguments.
func (p *Process) RequestGuard(method string, g guard.RequestGuard) {
	p.checkGuard(method, g == nil)
	p.queue.RequestGuard(method, g)
}

// checkGuard panics if a guard is nil, or comes after init and is of an unknown
// method.
func (p *Process) checkGuard(method string, isNil bool) {
	if isNil {
		panic(fmt.Sprintf("rpc: process %q: the guard of %q is nil", p.slot.name, short(method)))
	}
	if p.isServing() && p.functions[method] == nil {
		panic(p.unguardable(method).Error())
	}
}

// checkGuards returns an error for each guard of init that is of an unknown
// method.
func (p *Process) checkGuards() (err error) {
	for method := range p.queue.Guarded() {
		if p.functions[method] == nil {
			err = errors.Join(err, p.unguardable(method))
		}
	}
	return err
}

// unguardable is the error of a guard of an unknown method.
func (p *Process) unguardable(method string) error {
	return fmt.Errorf("rpc: process %q: the guard is of %q, which is no function of the process", p.slot.name, short(method))
}

// Count returns the counters of a method: how many requests have arrived, wait,
// run and have ended. Anonymous functions are not counted.
func (p *Process) Count(method string) guard.Counters { return p.queue.Count(method) }

// Remove removes a function, by the Method of its reference. Later calls fail
// with [ErrNoFunction]; running calls continue.
func (p *Process) Remove(method string) { delete(p.functions, method) }

// anonymous begins the names of anonymous functions.
const anonymous = "~"

// add adds a function and returns its name.
func (p *Process) add(method string, f *function) string {
	switch {
	case method == "":
		method = p.node.anonymousName()
	case strings.HasPrefix(method, anonymous):
		panic(fmt.Sprintf("rpc: process %q: the name of a function must not begin with %s: %q", p.slot.name, anonymous, method))
	case p.functions[method] != nil:
		panic(fmt.Sprintf("rpc: process %q has a function %q already", p.slot.name, method))
	}
	p.functions[method] = f
	return method
}

// accept takes a request, or refuses it.
func (p *Process) accept(r *request) error {
	p.mu.Lock()
	if p.over != nil {
		p.mu.Unlock()
		return p.over
	}
	p.open[r] = struct{}{}
	p.postLocked(entry{r: r})
	p.mu.Unlock()
	p.box.Wake()
	return nil
}

func (p *Process) post(e entry) {
	p.mu.Lock()
	p.postLocked(e)
	p.mu.Unlock()
	p.box.Wake()
}

func (p *Process) postLocked(e entry) {
	p.entries = append(p.entries, e)
	p.waiting.Add(1)
}

// turn handles the entries. If the supervisor has a message, or something else
// decides about each step, the remaining entries wait.
func (p *Process) turn() {
	p.mu.Lock()
	todo := p.entries
	p.entries, p.spare = p.spare[:0], nil
	p.mu.Unlock()
	done := 0
	defer func() { p.putBack(todo, done) }()
	for done < len(todo) {
		e := todo[done]
		todo[done] = entry{}
		done++
		p.waiting.Add(-1)
		p.do(e)
		if p.box.Pressing() || p.box.Stepped() {
			return
		}
	}
}

// putBack puts the entries that a turn has not handled before the entries that
// arrived meanwhile.
func (p *Process) putBack(todo []entry, done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done == len(todo) {
		p.spare = todo[:0]
		return
	}
	p.entries = append(todo[done:], p.entries...)
}

// do handles one entry, and starts the requests that may run then.
func (p *Process) do(e entry) {
	switch {
	case e.task != nil:
		p.host.Resume(e.task)
	case e.do != nil:
		e.do()
	case e.gone != nil:
		p.leave(e.gone)
	case e.r.job != nil:
		p.run(e.r)
	default:
		p.arrive(e.r)
	}
	for q := p.next(); q != nil; q = p.next() {
		p.run(q.Value.(*request))
	}
}

// next returns the next request to run now, or nil.
func (p *Process) next() *requests.Request {
	if p.rules == nil {
		q := p.queue.Candidate(nil, isGone)
		if q != nil {
			p.queue.Accept(q)
		}
		return q
	}
	for {
		q := p.rules.Next()
		p.coordination.flush() // the others hear of a commit before the request runs
		if q == nil || !isGone(q) {
			return q
		}
		p.complete(q)
		p.close(q.Value.(*request))
	}
}

// leave handles a request whose caller is gone.
func (p *Process) leave(r *request) {
	var waits bool
	if p.rules == nil {
		waits = p.queue.Withdraw(&r.queued)
	} else {
		waits = p.rules.Withdraw(&r.queued)
	}
	if waits || r.task == nil {
		p.close(r)
	}
}

// complete books that a request has ended.
func (p *Process) complete(q *requests.Request) {
	if p.rules == nil {
		p.queue.Complete(q)
		return
	}
	p.rules.Complete(q)
}

// isGone reports whether the caller of a waiting request is gone.
func isGone(q *requests.Request) bool {
	r := q.Value.(*request)
	r.process.mu.Lock()
	defer r.process.mu.Unlock()
	return r.gone != nil
}

// arrive puts a request in the queue.
func (p *Process) arrive(r *request) {
	r.function = p.functions[r.method]
	if r.function == nil {
		p.refuse(r, fmt.Errorf("%w: %q of process %s", ErrNoFunction, short(r.method), p.address))
		return
	}
	body, err := r.function.open(r.body)
	if err != nil {
		p.refuse(r, fmt.Errorf("request of %q of process %s: %w", short(r.method), p.address, err))
		return
	}
	r.body = body
	if strings.HasPrefix(r.method, anonymous) {
		if !isGone(&requests.Request{Value: r}) {
			p.run(r)
		}
		return
	}
	r.queued = requests.Request{Request: guard.Request{Process: p.text, Method: r.method, Args: body}, Value: r}
	if p.rules == nil {
		p.queue.Arrive(&r.queued)
		return
	}
	p.rules.Arrive(&r.queued)
}

// run starts a request. It returns when the function has ended or is suspended.
func (p *Process) run(r *request) {
	r.context = functionContext{p.ctx, r.deadline, r.carried.values()}
	_, _ = p.host.Start(&r.context, r, serve) // the host is closed only when the actor has ended
}

// serve is the body of the coroutine of a request.
func serve(t *coro.Task) {
	r := t.Tag.(*request)
	if r.job != nil {
		r.job(t)
		return
	}
	r.process.mu.Lock()
	r.task = t
	gone := r.gone
	r.process.mu.Unlock()
	if gone != nil {
		t.Stop(gone)
	}
	r.value, r.err = r.function.run(t, r.body)
}

// ended is called when a coroutine has ended.
func (p *Process) ended(t *coro.Task) {
	r := t.Tag.(*request)
	if r.job != nil {
		if err := t.Fault(); err != nil {
			p.log(err, "")
		}
		return
	}
	err := r.err
	if t.Fault() != nil {
		r.value, err = nil, t.Fault()
	}
	p.complete(&r.queued)
	r.answer(r.value, err)
}

// refuse ends a request that no function serves. If no caller waits for it, and
// it is from another node, it is a message that the node drops.
func (p *Process) refuse(r *request, err error) {
	if r.from == "" || r.reply != nil {
		r.answer(nil, err)
		return
	}
	if _, open := p.close(r); open {
		p.node.complain(r.from, "no function serves a request", slog.Any("error", err))
	}
}

func (p *Process) log(err error, method string) {
	p.node.cfg.Logger.Error("rpc: a function failed that no caller waits for",
		slog.String("process", p.text), slog.String("function", method), slog.Any("error", err))
}

// answer ends a request, once.
func (r *request) answer(value any, err error) {
	p := r.process
	ending, open := p.close(r)
	if !open {
		return
	}
	// the process was stopped, not the caller
	if ending && errors.Is(err, coroutine.ErrStopped) {
		err = fmt.Errorf("%w: process %s has ended", ErrUnreachable, p.address)
	}
	if !r.respond(value, err) && err != nil {
		p.log(err, r.method)
	}
}

// respond passes the end of a request to its caller, and reports whether one
// waits.
func (r *request) respond(value any, err error) bool {
	switch {
	case r.caller != nil:
		r.caller.finish(value, err)
	case r.reply != nil:
		r.reply(value, err)
	default:
		return false
	}
	return true
}

// close reports whether a request was open, which it is no more, and whether
// its process is ending.
func (p *Process) close(r *request) (ending, open bool) {
	p.mu.Lock()
	_, open = p.open[r]
	delete(p.open, r)
	ending = p.over != nil
	p.mu.Unlock()
	if open {
		r.end()
	}
	return ending, open
}

// end says that an accepted request is over.
func (r *request) end() {
	if r.ended != nil {
		r.ended()
	}
}

// cancel is called when the caller of a request is gone.
func (r *request) cancel(cause error) {
	p := r.process
	p.mu.Lock()
	_, open := p.open[r]
	if open {
		r.gone = cause
	}
	t := r.task
	p.mu.Unlock()
	switch {
	case !open:
	case t != nil:
		t.Stop(cause)
	default:
		p.post(entry{gone: r})
	}
}

// end ends the process: the functions that are suspended are stopped, and all
// requests are answered.
func (p *Process) end() {
	reason := fmt.Errorf("%w: process %s has ended", ErrUnreachable, p.address)
	defer p.node.leave(p, reason)
	p.mu.Lock()
	if p.over == nil {
		p.over = reason
	}
	p.mu.Unlock()
	p.host.CloseFor(reason)
	if p.coordination != nil {
		p.coordination.close()
	}
	p.cancel(reason)
}

// isGivenUp reports whether a supervisor has given the incarnation up:
// something in it may hang.
func (p *Process) isGivenUp() bool { return !actor.Has(p.system, p.pid) }

// replaced takes an incarnation for ended, since another has got its name. p
// may be nil.
func (p *Process) replaced() {
	if p == nil {
		return
	}
	if p.slot.book != nil {
		p.slot.book.silence(p)
	}
	p.disown(fmt.Errorf("%w: process %s was replaced", ErrUnreachable, p.address))
}

// isServing reports whether the process serves requests: its init has returned,
// and it has not begun to end.
func (p *Process) isServing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.serves && p.over == nil
}

// isOver reports whether the process can be reached no more.
func (p *Process) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over != nil
}

// renew gives the process the number of a new incarnation, for a synchronizer
// that begins anew.
func (p *Process) renew() {
	incarnation := p.node.nextIncarnation()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.incarnation = incarnation
}

// disown ends all that others expect of the process.
func (p *Process) disown(reason error) {
	p.mu.Lock()
	if p.over == nil {
		p.over = reason
	}
	open, watches := p.open, p.watches
	p.open, p.watches = map[*request]struct{}{}, nil
	p.mu.Unlock()
	for r := range open {
		r.end()
		r.respond(nil, reason)
	}
	for w := range watches {
		w.end(reason)
	}
}

// functionContext is the context that the coroutine of a function is started
// with.
type functionContext struct {
	context.Context
	deadline time.Time
	values   *command.Values // of the caller's context; nil if there are none
}

// Deadline returns the deadline of the caller.
func (c *functionContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Value returns the value that the call has brought along; if there is none, the
// value of the context of the process.
func (c *functionContext) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// anonymousName returns a name that no function has had, in this program or in
// one before it.
func (n *Node) anonymousName() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return anonymous + strconv.FormatUint(n.birth, 36) + "." + strconv.FormatUint(n.nextLocked(), 36)
}
