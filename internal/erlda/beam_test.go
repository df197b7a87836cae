package erlda

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
)

// node provides as much of an Erlang node as ERLDA needs: processes with unbounded mailboxes, links, monitors, names,
// and tables that end with their owner.
type node struct {
	born   time.Time
	chance *rand.Rand // guarded by mu

	mu        sync.Mutex // guards the fields below
	names     map[string]*process
	table     map[string][]*process // erlda_workers_table; nil if there is none
	owner     *process              // the owner of the table
	processes []*process
}

func newNode(seed uint64) *node {
	return &node{
		born: time.Now(), chance: rand.New(rand.NewPCG(seed, 0)),
		names: map[string]*process{},
	}
}

// monotonicMS returns erlang:monotonic_time(millisecond), as seen on OTP 25.
func (n *node) monotonicMS() int64 { return -576460751799 + time.Since(n.born).Milliseconds() }

// uniform is rand:uniform: it crashes for a number below one.
func (n *node) uniform(of int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chance.IntN(of)
}

// The reasons why a process of ERLDA ends.
var (
	errBadarg     = errors.New("badarg")
	errCaseClause = errors.New("case_clause")
	errUndef      = errors.New("undef")
	errShutdown   = errors.New("shutdown")
	errKilled     = errors.New("killed")
)

// register gives a process a name, and crashes if the name is taken.
func (n *node) register(name string, p *process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names[name] != nil {
		panic(errBadarg)
	}
	n.names[name] = p
}

// send is Name ! Msg: it crashes the sender if no process has the name.
func (n *node) send(name string, msg any) {
	p := n.whereis(name)
	if p == nil {
		panic(errBadarg)
	}
	p.send(msg)
}

func (n *node) whereis(name string) *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names[name]
}

// process is an Erlang process: any code that has it may send to it.
type process struct {
	node   *node
	wakeup chan struct{} // notification channel of capacity one
	ctx    context.Context
	kill   context.CancelFunc

	mu       sync.Mutex // guards the fields below
	mailbox  []any
	dead     bool
	links    []*process
	monitors []*process
}

// down is {'DOWN', Ref, process, Pid, Reason}.
type down struct{ process *process }

// open makes a process that runs no code: an external client with a mailbox.
func (n *node) open() *process {
	p := &process{node: n, wakeup: make(chan struct{}, 1)}
	p.ctx, p.kill = context.WithCancel(context.Background())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.processes = append(n.processes, p)
	return p
}

// spawn runs body in a process of its own. A panic ends the process; only linked processes and monitors get to know.
func (n *node) spawn(body func(self *process)) *process {
	p := n.open()
	go p.run(body)
	return p
}

// spawnLink is spawn with a link from the start.
func (n *node) spawnLink(parent *process, body func(self *process)) *process {
	p := n.open()
	parent.link(p)
	go p.run(body)
	return p
}

func (p *process) run(body func(self *process)) {
	defer func() {
		switch v := recover().(type) {
		case nil:
			p.end(nil)
		case error:
			p.end(v)
		default:
			p.end(errKilled)
		}
	}()
	body(p)
}

func (p *process) link(q *process) {
	p.mu.Lock()
	p.links = append(p.links, q)
	p.mu.Unlock()
	q.mu.Lock()
	q.links = append(q.links, p)
	q.mu.Unlock()
}

// monitor makes the watcher get a down message when p ends.
func (p *process) monitor(watcher *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.monitors = append(p.monitors, watcher)
}

// end ends a process for a reason, nil if it is a normal end. Its mailbox, its name and its table go with it. What a
// handler does at that moment has no effect, see check.
func (p *process) end(reason error) {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return
	}
	p.dead, p.mailbox = true, nil
	links, monitors := p.links, p.monitors
	p.mu.Unlock()
	p.kill()
	p.node.forget(p)
	for _, w := range monitors {
		w.send(down{p})
	}
	for _, q := range links {
		if reason != nil {
			q.end(reason)
		}
	}
}

func (n *node) forget(p *process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, q := range n.names {
		if p == q {
			delete(n.names, name)
		}
	}
	if n.owner == p {
		n.owner, n.table = nil, nil
	}
}

// send queues a message; a message to a dead process is lost.
func (p *process) send(msg any) {
	p.mu.Lock()
	if !p.dead {
		p.mailbox = append(p.mailbox, msg)
	}
	p.mu.Unlock()
	select {
	case p.wakeup <- struct{}{}:
	default:
	}
}

// receive waits for a message. A process that was ended in the meantime ends here.
func (p *process) receive() any {
	for {
		if msg, some := p.take(); some {
			return msg
		}
		select {
		case <-p.wakeup:
		case <-p.ctx.Done():
			runtime.Goexit()
		}
	}
}

// receiveWithin is receive … after.
func (p *process) receiveWithin(d time.Duration) (any, bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		if msg, some := p.take(); some {
			return msg, true
		}
		select {
		case <-p.wakeup:
		case <-timer.C:
			return nil, false
		}
	}
}

func (p *process) take() (any, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mailbox) == 0 {
		return nil, false
	}
	msg := p.mailbox[0]
	p.mailbox = p.mailbox[1:]
	return msg, true
}

// check ends the process here if it was ended while it did something else: an Erlang process can be ended anywhere, a
// goroutine cannot.
func (p *process) check() {
	if !p.isAlive() {
		runtime.Goexit()
	}
}

func (p *process) isAlive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead
}

// queueLen is process_info(Pid, message_queue_len): false means undefined.
func (p *process) queueLen() (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mailbox), !p.dead
}

// lookup is ets:lookup: a copy of the whole list.
func (n *node) lookup(key string) []*process {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.table == nil {
		panic(errBadarg)
	}
	return slices.Clone(n.table[key])
}

// insert is ets:insert.
func (n *node) insert(key string, workers []*process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.table == nil {
		panic(errBadarg)
	}
	n.table[key] = workers
}

// preempt is called between a lookup and the insert that depends on it. Erlang's scheduler may run another process
// there; here it always does.
func preempt() { time.Sleep(time.Millisecond) }

// halt ends every process.
func (n *node) halt() {
	n.mu.Lock()
	all := slices.Clone(n.processes)
	n.mu.Unlock()
	for _, p := range all {
		p.end(errKilled)
	}
}
