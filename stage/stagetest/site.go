package stagetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// site is a node of a graph at work: what its handlers see and count by themselves, to be
// compared with what the engine says.
type site struct {
	Node
	run      *run
	index    int
	stage    *stage.Stage[Command]
	ports    []*behaviour.Port[Command]
	injector *Injector

	started, stopped atomic.Int64
	inside, most     atomic.Int64
	oks, forwards    atomic.Uint64

	mu     sync.Mutex // guards all below
	done   map[Command]int
	newest uint64 // of those that came first, where order counts
}

func newSite(r *run, index int, n Node) *site {
	faults := n.Faults
	faults.Key = func(cmd any) uint64 { return cmd.(Command).key() }
	in, err := NewInjector(r.plan.Seed+uint64(index), faults)
	if err != nil {
		r.breachf(Checks, "%v", err)
		in, _ = NewInjector(0, Faults{})
	}
	return &site{Node: n, run: r, index: index, injector: in, done: map[Command]int{}}
}

// exact reports whether the site's own counts must be the engine's: it handles a command
// once for each answer, and is never given up.
func (s *site) exact() bool { return !s.Batcher && s.Timeout == 0 }

// station is the behaviour of a node.
type station struct {
	site  *site
	alive atomic.Bool
	busy  atomic.Bool
}

// Start notes that an instance begins.
func (s *station) Start(context.Context) error {
	s.site.started.Add(1)
	if !s.alive.CompareAndSwap(false, true) {
		s.site.run.breachf(Instances, "stage %s: an instance was started twice", name(s.site.index))
	}
	return nil
}

// Stop notes that it ends.
func (s *station) Stop() {
	s.site.stopped.Add(1)
	if !s.alive.CompareAndSwap(true, false) {
		s.site.run.breachf(Instances, "stage %s: an instance was stopped that was not started, or twice", name(s.site.index))
	}
}

// HandleCommand works, and sends the command on.
func (s *station) HandleCommand(ctx context.Context, cmd Command) behaviour.Outcome {
	leave := s.enter()
	defer leave()
	return s.site.handle(ctx, cmd)
}

// enter notes that a handler runs, and sees that it may.
func (s *station) enter() (leave func()) {
	where := s.site
	if !s.alive.Load() && where.Timeout == 0 { // one that was given up may come back at any time
		where.run.breachf(Instances, "stage %s: an instance was used before its start or after its stop", name(where.index))
	}
	if where.Each && !s.busy.CompareAndSwap(false, true) {
		where.run.breachf(Instances, "stage %s: an instance was used by two workers at once", name(where.index))
	}
	now := where.inside.Add(1)
	for {
		most := where.most.Load()
		if now <= most || where.most.CompareAndSwap(most, now) {
			break
		}
	}
	return func() {
		where.inside.Add(-1)
		s.busy.Store(false)
	}
}

// stationOfMany is a station that is better at many commands.
type stationOfMany struct{ station }

// HandleBatch handles one command after the other.
func (s *stationOfMany) HandleBatch(ctx context.Context, cmds []Command) []behaviour.Outcome {
	leave := s.enter()
	defer leave()
	outcomes := make([]behaviour.Outcome, len(cmds))
	for i, cmd := range cmds {
		outcomes[i] = s.site.handle(ctx, cmd)
	}
	return outcomes
}

// handle works, and sends the command on along the way that its key says.
func (s *site) handle(ctx context.Context, cmd Command) behaviour.Outcome {
	s.note(cmd)
	s.work(ctx)
	if cmd.Hops == 0 || len(s.Next) == 0 {
		s.oks.Add(1)
		return behaviour.OK(cmd.ID)
	}
	way := int(mix(cmd.key()^s.run.plan.Seed) % uint64(len(s.Next)))
	next := cmd
	next.Hops--
	next.Part <<= 4
	if s.Spread && (cmd.Part == 0 || s.run.plan.Fans) {
		s.spread(ctx, next, way)
	}
	s.forwards.Add(1)
	return behaviour.Forward(s.target(way), next)
}

// spread emits a part of the command along each way but one. No way refuses it for want of room,
// unless the plan has a bound of its own for that.
func (s *site) spread(ctx context.Context, next Command, but int) {
	for n := range s.Next {
		if n != but {
			part := next
			part.Part = s.part(next, n)
			s.run.emitted(name(n), behaviour.Emit(ctx, s.target(n), part))
		}
	}
}

// part is where a command was emitted: the hops that were left then, and for each hop from there on the way that
// it was emitted along, from one, or 0 if it was forwarded; four bits each.
func (s *site) part(next Command, way int) uint32 {
	if next.Part == 0 {
		return uint32(next.Hops+1)<<4 | uint32(way+1)
	}
	return next.Part | uint32(way+1)
}

// note notes a handler's run: how often a command was handled here, and in what order.
func (s *site) note(cmd Command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[cmd]++
	if s.done[cmd] > 1 && s.exact() {
		s.run.breachf(OneEnd, "stage %s: command %+v was handled %d times", name(s.index), cmd, s.done[cmd])
	}
	if s.run.plan.Ordered {
		if cmd.ID < s.newest {
			s.run.breachf(Order, "stage %s: command %d came after command %d", name(s.index), cmd.ID, s.newest)
		}
		s.newest = max(s.newest, cmd.ID)
	}
}

// count compares what the handlers have seen with what the engine says.
func (s *site) count(st stage.Snapshot) error {
	if !s.exact() {
		return nil
	}
	if oks, forwards := s.oks.Load(), s.forwards.Load(); st.OK != oks || st.Forwarded != forwards {
		return fmt.Errorf("stage %s: handlers answered ok %d times and forward %d, the stage says %d and %d",
			st.Name, oks, forwards, st.OK, st.Forwarded)
	}
	return nil
}
