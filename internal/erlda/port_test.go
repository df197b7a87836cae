package erlda

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// The messages of ERLDA.
type (
	command struct { // {command, Command, From}
		job  job
		from *process
	}
	task        command             // {work, Command, From}
	stageResult struct{ id int }    // {stage_result, Result}
	stageError  struct{ err error } // {stage_error, Reason}
	busy        struct{}
	stop        struct{}
	finish      struct{} // to the process that started the stages: it may end
)

// The numbers of the original's code.
const (
	firstWorkers = 10
	mailboxLimit = 50
	tries        = 5
	minWorkers   = 1 // of remove_worker; the controller has another one
)

// module is a stage module: the user's code.
type module struct {
	node     *node
	name     string
	handle   handler
	watched  bool          // workers are monitored; in the original they are not
	dispatch time.Duration // the time to dispatch one command
	// rebalancingPolicy is the optional callback rebalancing_policy/0. It is
	// declared, and never called.
	rebalancingPolicy func()
}

func (m *module) key() string { return m.name + "_workers" }

// spawnStage is stage_behaviour:spawn_stage/1. The table belongs to the first starter, and the controller is linked to
// the starter, not to the stage.
func spawnStage(starter *process, m *module, ticks *atomic.Int64) *process {
	m.node.ensureWorkersTable(starter)
	pid := m.node.spawnLink(starter, m.loop)
	m.node.register(m.name, pid)
	starter.link(spawnController(m, pid, ticks))
	return pid
}

func (n *node) ensureWorkersTable(owner *process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.table == nil {
		n.table, n.owner = map[string][]*process{}, owner
	}
}

// loop is the dispatcher: one process, with a mailbox that has no bound.
func (m *module) loop(self *process) {
	workers := make([]*process, firstWorkers)
	for i := range workers {
		workers[i] = m.spawnWorker(self)
	}
	m.node.insert(m.key(), workers)
	for {
		switch msg := self.receive().(type) {
		case command:
			m.pass(self, msg)
		case down:
			m.removeDead(msg.process)
		case stop:
			m.hibernate(self)
		}
	}
}

// pass gives a command to a random worker whose mailbox is not full. A dead worker has no mailbox, which counts as an
// empty one.
func (m *module) pass(self *process, c command) {
	pause(self.ctx, m.dispatch)
	self.check()
	workers := m.node.lookup(m.key())
	for range tries {
		w := workers[m.node.uniform(len(workers))]
		if queueLen(w) < mailboxLimit {
			w.send(task(c))
			return
		}
	}
	c.from.send(busy{})
}

func queueLen(w *process) int {
	if n, some := w.queueLen(); some {
		return n
	}
	return 0
}

// hibernate waits to be woken in StageModule:wait_message/1, which stage modules do not export.
func (m *module) hibernate(self *process) {
	self.receive()
	panic(errUndef)
}

func (m *module) spawnWorker(stage *process) *process {
	w := m.node.spawn(m.work)
	if m.watched {
		w.monitor(stage)
	}
	return w
}

// work is stage_worker:loop/1.
func (m *module) work(self *process) {
	for {
		t, _ := self.receive().(task)
		a := m.handle(self.ctx, t.job)
		self.check()
		switch a.kind {
		case ok:
			t.from.send(stageResult{a.id})
		case failure:
			t.from.send(stageError{a.err})
		case forward:
			m.node.send(a.next, command{a.job, t.from})
		default:
			panic(errCaseClause)
		}
	}
}

// addWorker is stage_behaviour:add_worker/1.
func (m *module) addWorker() {
	workers := m.node.lookup(m.key())
	preempt()
	w := m.spawnWorker(m.node.whereis(m.name))
	m.node.insert(m.key(), append([]*process{w}, workers...))
}

// removeDead is remove_worker/2 with a pid, for a worker that went down: it is not replaced.
func (m *module) removeDead(dead *process) {
	workers := m.node.lookup(m.key())
	preempt()
	m.node.insert(m.key(), slices.DeleteFunc(workers, func(w *process) bool { return w == dead }))
}

// removeWorker is remove_worker/2 with any: it reverses the list and ends the first worker, whatever its mailbox holds.
func (m *module) removeWorker() {
	workers := m.node.lookup(m.key())
	if len(workers) <= minWorkers {
		return
	}
	slices.Reverse(workers)
	workers[0].end(errShutdown)
	preempt()
	m.node.insert(m.key(), workers[1:])
}

// portWorld is a node on which ERLDA is started.
type portWorld struct {
	*node

	watched  bool
	dispatch time.Duration
}

func (w *portWorld) close() {
	w.halt()
	settle(time.Second) // for processes in the middle of a change
}

// start is poc_app:start/2: it starts the stages, linked to itself, without a supervisor.
func (w *portWorld) start(l layout) (system, error) {
	s := &portSystem{node: w.node, modules: map[string]*module{}}
	for _, sp := range l.stages {
		if !sp.absent {
			s.modules[sp.name] = &module{
				node: w.node, name: sp.name, handle: sp.handle, watched: w.watched,
				dispatch: w.dispatch, rebalancingPolicy: l.rebalance,
			}
			s.order = append(s.order, sp.name)
		}
	}
	s.starter = w.spawn(s.app)
	synctest.Wait()
	if !s.alive() {
		return nil, fmt.Errorf("the starter crashed: %w", errBadarg)
	}
	return s, nil
}

// portSystem is a running ERLDA application.
type portSystem struct {
	node    *node
	order   []string
	modules map[string]*module
	starter *process
	count   atomic.Int64
}

func (s *portSystem) app(self *process) {
	for _, name := range s.order {
		spawnStage(self, s.modules[name], &s.count)
	}
	self.receive()
}

func (s *portSystem) dial() client { return &portClient{s.node, s.node.open()} }

func (s *portSystem) workers(stage string) (n int) {
	s.node.mu.Lock()
	known := s.node.table[stage+"_workers"] // none, if the table is gone
	s.node.mu.Unlock()
	for _, w := range known {
		if w.isAlive() {
			n++
		}
	}
	return n
}

func (s *portSystem) queued(stage string) int {
	return queueLen(s.node.whereis(stage))
}

// add makes each change in a process of its own, as controllers and stages do.
func (s *portSystem) add(stage string, n int) {
	m := s.modules[stage]
	for ; n > 0; n-- {
		s.node.spawn(func(*process) { m.addWorker() })
	}
	for ; n < 0; n++ {
		s.node.spawn(func(*process) { m.removeWorker() })
		settle(2 * time.Millisecond) // removals must not race with each other
	}
}

func (s *portSystem) breakController() {
	s.node.whereis(s.order[0] + "_controller").end(errKilled)
	synctest.Wait()
}

func (s *portSystem) ticks() int                  { return int(s.count.Load()) }
func (s *portSystem) forget()                     { s.starter.send(finish{}); synctest.Wait() }
func (s *portSystem) alive() bool                 { return s.starter.isAlive() }
func (s *portSystem) accounts() (accounts, error) { return accounts{}, errNoAccounts }

func (s *portSystem) stop() error {
	for _, name := range s.order {
		if p := s.node.whereis(name); p != nil {
			p.send(stop{})
		}
	}
	synctest.Wait()
	return nil
}

// portClient is a client with a mailbox. Answers have no reference: the client takes the next one as the answer to its
// last question.
type portClient struct {
	node *node
	self *process
}

func (c *portClient) send(stage string, j job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("send: %v", v)
		}
	}()
	c.node.send(stage, command{j, c.self})
	synctest.Wait()
	return nil
}

func (c *portClient) receive() (int, error) {
	msg, _ := c.self.receiveWithin(patience)
	switch m := msg.(type) {
	case stageResult:
		return m.id, nil
	case stageError:
		return 0, m.err
	case busy:
		return 0, errBusy
	default:
		return 0, errSilence
	}
}
