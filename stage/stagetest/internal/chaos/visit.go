package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/monitor"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
	"github.com/golda-dev/golda/supervisor"
)

// visitors is how many processes visit the monitor for handlers, and mostVisits
// how many of them a synchronizer lets do so at once.
const visitors, mostVisits = 3, 2

// processes are called by handlers of nodes with Visits: visitors, the process
// of their lock, and their synchronizer, each of which KillProcess may kill. At
// most one visitor at a time is inside the monitor, and at most mostVisits want
// to be.
type processes struct {
	run     *run
	node    *rpc.Node
	tree    *supervisor.Tree
	lock    monitor.Lock
	running atomic.Int64

	mu     sync.Mutex // guards the fields below
	newest uint64     // the highest token of an entry
	user   uint64     // the token of the entry that is inside
	seen   map[uint64]bool
}

// visit is what a handler asks of a visitor: one is made for each command and
// attempt.
type visit struct {
	Key       uint64
	Crashes   bool // the visitor panics inside
	overtaken *atomic.Bool
}

// errPlanned is what a visitor panics with.
var errPlanned = errors.New("planned")

// startProcesses starts the processes if a node visits them.
func (r *run) startProcesses() (err error) {
	if !slices.ContainsFunc(r.plan.Graph.Nodes, func(n Node) bool { return n.Visits }) {
		return nil
	}
	p := &processes{run: r, seen: map[uint64]bool{}}
	r.processes = p
	log := slog.New(slog.DiscardHandler) // a process that is killed is logged as an error
	if p.node, err = rpc.NewNode(rpc.Config{Logger: log}); err != nil {
		return err
	}
	p.lock = monitor.Lock{Address: p.node.Address("lock")}
	children := []supervisor.Child{monitor.Child(p.node, "lock")}
	var events []synchronizer.Event
	for i := range visitors {
		children = append(children, p.node.Child(visitor(i), p.serve))
		events = append(events, synchronizer.Event{Of: p.node.Address(visitor(i)), Method: "visit"})
	}
	if !r.plan.Graph.spoils("unruled") {
		rule := func(s *synchronizer.Synchronizer) { s.AtMost(mostVisits, events...) }
		children = append(children, p.node.SynchronizerChild("visits", rule))
	}
	p.tree, err = supervisor.Start(context.Background(), oracle.System(), supervisor.Spec{
		Name: p.prefix(), Strategy: supervisor.OneForOne, Children: children, Log: log,
		Intensity: supervisor.Intensity{Restarts: 1 << 30, Within: time.Second},
		Backoff:   supervisor.Backoff{First: 10 * time.Microsecond, Max: time.Millisecond},
	})
	return err
}

func visitor(i int) string { return fmt.Sprintf("visitor%d", i) }

// spoils reports whether a node breaks a promise in that way.
func (g Graph) spoils(how string) bool {
	return slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.spoil == how })
}

// prefix is the name of the supervisor, and what the names of the processes
// begin with.
func (p *processes) prefix() string { return "golda/" + p.run.name + "-processes" }

// serve is the init of a visitor.
func (p *processes) serve(of *rpc.Process) error {
	visitAlone := monitor.DoWhenFree(p.lock, func(c coroutine.Context, m *monitor.Monitor, v visit) (struct{}, error) {
		return struct{}{}, p.inside(c, m.Token(), v)
	})
	enter := func(c coroutine.Context, v visit) error {
		if p.run.plan.Graph.spoils("unlocked") {
			return p.inside(c, p.token(), v)
		}
		_, err := visitAlone(c, v)
		return err
	}
	rpc.Func(of, "visit", func(c coroutine.Context, v visit) (struct{}, error) {
		if n := p.running.Add(1); n > mostVisits {
			p.run.breachf(OneEnd, "%d processes visit the monitor at once, and the synchronizer allows %d", n, mostVisits)
		}
		defer p.running.Add(-1)
		v.overtaken = new(atomic.Bool)
		err := enter(c, v)
		if v.overtaken.Load() && !errors.Is(err, monitor.ErrLost) {
			p.run.breachf(OneEnd, "two processes were inside the monitor, and the first was not told that it has lost the lock: %v", err)
		}
		return struct{}{}, err
	})
	return nil
}

// token returns a new token, for visits without the lock.
func (p *processes) token() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest + 1
}

// inside is the work of a visitor inside the monitor. A token that is older
// than one that was seen belongs to an entry that has lost the lock.
func (p *processes) inside(c coroutine.Context, token uint64, v visit) error {
	p.mu.Lock()
	if token <= p.newest {
		p.mu.Unlock()
		return monitor.ErrLost
	}
	p.newest, p.user = token, token
	p.mu.Unlock()
	if v.Crashes {
		panic(errPlanned)
	}
	if err := coroutine.Yield(c); err != nil {
		return err
	}
	if v.Key%4 == 0 {
		if err := coroutine.Sleep(c, time.Duration(v.Key%100)*time.Microsecond); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v.overtaken.Store(p.user != token)
	p.seen[v.Key] = true
	return nil
}

// visit has a visitor visit the monitor for a command, again and again until it
// has. An error means that the handler was stopped.
func (s *site) visit(c behaviour.Suspender, cmd command) error {
	if !s.Visits {
		return nil
	}
	return s.run.processes.visit(c, cmd.key())
}

func (p *processes) visit(c behaviour.Suspender, key uint64) error {
	for try := uint64(0); c.Err() == nil; try++ { // middleware may have ended its context
		draw := oracle.Mix(key + try)
		to := rpc.At[visit, struct{}](p.node.Address(visitor(int(draw%visitors))), "visit")
		_, err := to.Call(c, visit{Key: key, Crashes: draw%16 == 0})
		panicked, crashed := errors.AsType[*coroutine.PanicError](err)
		switch {
		case err == nil:
			if !p.hasSeen(key) {
				p.run.breachf(OneEnd, "a visit was lost: it is answered, and was not made")
			}
			return nil
		case errors.Is(err, coroutine.ErrStopped):
			return err
		case c.Err() != nil, crashed && panicked.Value == any(errPlanned), isAny(err, rpc.ErrUnreachable, monitor.ErrLost):
		default:
			p.run.breachf(Crashes, "a visit ended with an unknown error: %v", err)
			return nil
		}
		if err := coroutine.Sleep(c, 50*time.Microsecond); err != nil { // a process that was killed starts again
			return err
		}
	}
	return nil
}

func (p *processes) hasSeen(key uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[key]
}

// kill kills one of the processes, as kill does an actor of the pipeline.
func (p *processes) kill(rnd *rand.Rand) bool {
	if p == nil {
		return false
	}
	all := actor.Processes(oracle.System(), p.prefix()+"/")
	if len(all) == 0 {
		return false
	}
	actor.Stop(oracle.System(), actor.Local(oracle.System(), all[rnd.IntN(len(all))]))
	return true
}

// close checks that a visit is possible at the end, and stops the processes.
func (p *processes) close() {
	if p == nil || p.tree == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.visit(coroutine.Blocking(ctx), oracle.Mix(p.run.plan.Seed)); err != nil || ctx.Err() != nil {
		p.run.breachf(Progress, "the monitor of the processes is stuck at the end: %v", err)
	}
	if left := p.tree.Stop(); len(left) > 0 {
		p.run.breachf(Progress, "processes do not stop: %q", left)
	}
	if err := p.node.Close(); err != nil {
		p.run.breachf(Progress, "the node of the processes: %v", err)
	}
}
