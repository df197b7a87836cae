package chaos

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
)

// site is a running node of a graph: the counts of its handlers, to be compared
// with the engine's figures.
type site struct {
	Node
	run      *run
	index    int
	stage    *stage.Stage[command]
	ports    []*behaviour.Port[command]
	injector *stagetest.Injector
	flows    interface { // of a node that leads on by itself: a flow, or the stage behind a window
		To(target behaviour.Target[command], more ...behaviour.Target[command]) part.Part
		Route(pick func(c command, n int) int, targets ...behaviour.Target[command]) part.Part
	}
	pick func(c command, n int) int // of a flow with a route
	tail pipeline.Part              // the stage behind a window, which opens it

	started, stopped atomic.Int64
	inside, most     atomic.Int64
	oks, forwards    atomic.Uint64
	calls, repeats   atomic.Uint64 // of the handler; repeats are calls by middleware that cost no permit of a rate
	badKeys          atomic.Uint64 // calls of a function for the key, or of one that looks into a window, that crashed

	mu     sync.Mutex                // guards all fields below
	due    map[command]int           // how often a command was sent here
	done   map[command]int           // how often it was handled here
	newest map[uint64]uint64         // the newest command that was handled of each key, where the order matters
	live   map[uint64]*nodeBehaviour // of a keyed node: the instance of each key
	// working counts the handlers of each key of a keyed or fair node.
	working map[uint64]int
	states  states

	order order // in which commands are to be handled; not changed
}

func newSite(r *run, index int, n Node) *site {
	faults := n.Faults
	faults.Key = func(cmd any) uint64 { return cmd.(command).key() }
	in, err := stagetest.NewInjector(r.plan.Seed+uint64(index), faults)
	if err != nil {
		r.breachf(Checks, "%v", err)
		in, _ = stagetest.NewInjector(0, stagetest.Faults{})
	}
	return &site{
		Node: n, run: r, index: index, injector: in, due: map[command]int{}, done: map[command]int{}, newest: map[uint64]uint64{},
		live: map[uint64]*nodeBehaviour{}, working: map[uint64]int{},
	}
}

// exact reports whether the site's own counts must equal the engine's: it
// handles a command once for each outcome, and no run of its handler is ever
// abandoned.
func (s *site) exact() bool { return !s.Batcher && s.Timeout == 0 }

// nodeBehaviour is the behaviour of a node.
type nodeBehaviour struct {
	site  *site
	alive atomic.Bool
	busy  atomic.Bool
}

// Start records that an instance starts.
func (s *nodeBehaviour) Start(context.Context) error {
	s.site.started.Add(1)
	if !s.alive.CompareAndSwap(false, true) {
		s.site.run.breachf(Instances, "stage %s: an instance was started twice", name(s.site.index))
	}
	return nil
}

// Stop records that the instance ends.
func (s *nodeBehaviour) Stop() {
	s.site.stopped.Add(1)
	if !s.alive.CompareAndSwap(true, false) {
		s.site.run.breachf(Instances, "stage %s: an instance was stopped that was not started, or twice", name(s.site.index))
	}
}

// HandleCommand works and forwards the command.
func (s *nodeBehaviour) HandleCommand(ctx context.Context, cmd command) behaviour.Outcome {
	leave := s.enter()
	defer leave()
	return s.site.handle(ctx, cmd)
}

// enter records that a handler runs, and checks that it may.
func (s *nodeBehaviour) enter() (leave func()) {
	where := s.site
	if !s.alive.Load() && where.Timeout == 0 { // an abandoned run may return at any time
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

// nodeBatcher is a nodeBehaviour that handles batches.
type nodeBatcher struct{ nodeBehaviour }

// HandleBatch handles one command after the other.
func (s *nodeBatcher) HandleBatch(ctx context.Context, cmds []command) []behaviour.Outcome {
	leave := s.enter()
	defer leave()
	outcomes := make([]behaviour.Outcome, len(cmds))
	for i, cmd := range cmds {
		outcomes[i] = s.site.handle(ctx, cmd)
	}
	return outcomes
}

// handle works, and forwards the command to the stage that its key selects.
func (s *site) handle(ctx context.Context, cmd command) behaviour.Outcome {
	defer s.note(cmd)()
	s.work(ctx)
	o := s.outcome(ctx, cmd)
	if !s.surrounded() {
		s.account(o)
	}
	return o
}

func (s *site) outcome(ctx context.Context, cmd command) behaviour.Outcome {
	if cmd.Hops == 0 || len(s.Next) == 0 {
		return behaviour.OK(cmd.ID)
	}
	way := int(oracle.Mix(cmd.key()^s.run.plan.Seed) % uint64(len(s.Next)))
	next := cmd.onward()
	if s.spoil == "torn" && cmd.ID == 7 {
		next.Hops++ // and not its sum
	}
	if s.Spread && (cmd.Part == 0 || s.run.plan.Fans) {
		s.spread(ctx, next, way)
	}
	s.next(way).expect(next)
	return behaviour.Forward(s.target(way), next)
}

// account counts an outcome.
func (s *site) account(o behaviour.Outcome) {
	switch o.Kind() {
	case behaviour.KindOK:
		s.oks.Add(1)
	case behaviour.KindForward:
		s.forwards.Add(1)
	default: // an error
	}
}

// spread emits a part of the command to each next stage except one. None
// refuses it with ErrFull, but a plan's MaxInFlight may refuse it.
func (s *site) spread(ctx context.Context, next command, but int) {
	for n := range s.Next {
		if n != but {
			part := next
			part.Part = s.part(next, n)
			part = part.sealed()
			s.next(n).expect(part)
			err := behaviour.Emit(ctx, s.target(n), part)
			if s.run.emitted(name(s.Next[n]), err); err != nil {
				s.next(n).expectNot(part)
			}
		}
	}
}

// part encodes where a command was emitted: the hops that were left then, and
// for each hop since then the number of the next stage that it was emitted to,
// counted from one, or 0 if it was forwarded. Each takes four bits.
func (s *site) part(next command, way int) uint32 {
	if next.Part == 0 {
		return uint32(next.Hops+1)<<4 | uint32(way+1)
	}
	return next.Part | uint32(way+1)
}

// expect records that a command is sent here. It is called before.
func (s *site) expect(cmd command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due[cmd]++
}

// expectNot takes back that a command is sent here.
func (s *site) expectNot(cmd command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due[cmd]--
}

// note records a handler's run: how often a command was handled here, and in
// what order.
func (s *site) note(cmd command) (leave func()) {
	s.calls.Add(1)
	if s.AtOnce == 0 {
		return s.mark(cmd)
	}
	left, done := s.mark(cmd), s.share(keyOf(cmd))
	return func() { done(); left() }
}

// share records that a handler of a key of a fair node runs, and checks that it
// may.
func (s *site) share(key uint64) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working[key]++; s.working[key] > s.AtOnce && s.Timeout == 0 { // handlers that are given up do not count
		s.run.breachf(OneEnd, "stage %s: %d handlers of key %d run at once, and %d may", name(s.index), s.working[key], key, s.AtOnce)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.working[key]--
	}
}

// mark is note for a command that came here in a window.
func (s *site) mark(cmd command) (leave func()) {
	leave = func() {}
	if s.Timeout == 0 { // an abandoned run goes on after its command has ended
		leave = s.run.startWork(name(s.index), cmd)
	}
	s.run.intact(name(s.index), cmd)
	s.run.checkComplete(s, cmd)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[cmd]++
	if s.done[cmd] > s.due[cmd] && s.exact() {
		s.run.breachf(OneEnd, "stage %s: command %+v was handled %d times and sent here %d times",
			name(s.index), cmd, s.done[cmd], s.due[cmd])
	}
	if s.order != unknown {
		key := uint64(0)
		if s.order == byKey {
			key = keyOf(cmd)
		}
		if cmd.ID < s.newest[key] {
			s.run.breachf(Order, "stage %s: command %d came after command %d", name(s.index), cmd.ID, s.newest[key])
		}
		s.newest[key] = max(s.newest[key], cmd.ID)
	}
	return leave
}

// count compares what the handlers have counted with the engine's figures.
func (s *site) count(st stage.Snapshot) error {
	if s.Window.Kind != "" {
		return s.countSuperseded(st)
	}
	if !s.exact() {
		return nil
	}
	if oks, forwards := s.oks.Load(), s.forwards.Load(); st.Counts.OK != oks || st.Counts.Forwarded != forwards {
		return fmt.Errorf("stage %s: handlers answered ok %d times and forward %d, the stage says %d and %d",
			st.Name, oks, forwards, st.Counts.OK, st.Counts.Forwarded)
	}
	return nil
}

// lost returns the commands that were sent here and not handled, and for which
// there is no letter and no error.
func (s *site) lost(excused map[uint64]bool) (lost []command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cmd, due := range s.due {
		if due > 0 && s.done[cmd] == 0 && !excused[cmd.ID] {
			lost = append(lost, cmd)
		}
	}
	return lost
}

// checkGuard checks that no more handlers ran at once than the guard allows,
// and that at the end nothing is held or current.
func (s *site) checkGuard(st stage.Snapshot) error {
	if s.Guard == 0 {
		return nil
	}
	if most := s.most.Load(); most > int64(s.Guard) && s.Timeout == 0 { // handlers that are given up do not count
		return fmt.Errorf("stage %s: %d handlers ran at once, and its guard allows %d", st.Name, most, s.Guard)
	}
	for _, m := range st.Methods {
		if m.Pending != st.Queue.Queued || m.Current > st.Workers.Abandoned ||
			m.Accepted != m.Completed+m.Current || m.Invocations != m.Accepted+m.Pending {
			return fmt.Errorf("stage %s: at the end its method has %+v, with %d abandoned", st.Name, m.Counters, st.Workers.Abandoned)
		}
	}
	return nil
}

// checkRate checks that the handler was called no more often than the rate
// allows in the time since the start.
func (s *site) checkRate(d time.Duration) error {
	if s.Rate == 0 {
		return nil
	}
	calls, repeats := s.calls.Load(), s.repeats.Load()
	if most := uint64(s.Burst) + uint64(float64(s.Rate)*float64(d)/float64(time.Millisecond)) + repeats; calls > most {
		return fmt.Errorf("stage %s: its handler was called %d times in %v, which is more than %d", name(s.index), calls, d, most)
	}
	return nil
}
