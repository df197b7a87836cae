package inbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
)

// testGraph is a small graph of small inboxes: A leads to B, B to C and D, C and D to E. Its workers, of shared pools and of
// the stages' own, are goroutines.
type testGraph struct {
	*Pipeline

	inboxes []*Inbox
	edges   [][]int
	pools   []*SharedPool
	workers []*graphWorker

	ending                  atomic.Bool
	accepted, through, dead atomic.Int64
	progress                chan struct{}
}

// graphWorker is a worker without an actor: a goroutine that sleeps on a channel.
type graphWorker struct {
	Member
	graph    *testGraph
	pool     *SharedPool // nil: a stage's own worker
	own      *Inbox
	wakeup   chan struct{}
	tally    Tally
	outboxes [][]command.Envelope
	rnd      *rand.Rand
	doing    atomic.Pointer[string]
}

func newTestGraph(rnd *rand.Rand) *testGraph {
	g := &testGraph{Pipeline: newPipeline(), edges: [][]int{{1}, {2, 3}, {4}, {4}, nil}, progress: make(chan struct{}, 1)}
	g.Ended = func(Ending) {
		g.dead.Add(1)
		g.notify()
	}
	for i := range 2 {
		g.pools = append(g.pools, NewSharedPool(fmt.Sprint("pool", i), g.Pipeline))
		g.pools[i].SetDispatch(dispatchModes[rnd.IntN(3)])
	}
	for i := range g.edges {
		in := New(Config{
			Name: string(rune('A' + i)), Capacity: 1 + rnd.IntN(6), Batch: 4, Instances: 2 + rnd.IntN(2), StreakEnds: time.Minute,
			Retry: Retry{Attempts: rnd.IntN(3)},
		})
		in.Place, in.state.pace.limit = i, 4
		g.Pipeline.Attach(in)
		in.Phases().Open()
		g.inboxes = append(g.inboxes, in)
		g.bind(in, rnd.IntN(3))
	}
	for i, ways := range g.edges {
		for _, to := range ways {
			g.inboxes[i].Settings().Ahead(g.inboxes[to])
		}
	}
	for _, sp := range g.pools {
		for range 1 + rnd.IntN(3) {
			g.workers = append(g.workers, g.newWorker(sp, nil, rnd))
		}
	}
	for _, in := range g.inboxes {
		g.workers = append(g.workers, g.newWorker(nil, in, rnd))
	}
	return g
}

func (g *testGraph) newWorker(sp *SharedPool, own *Inbox, rnd *rand.Rand) *graphWorker {
	w := &graphWorker{
		graph: g, pool: sp, own: own, wakeup: make(chan struct{}, 1), outboxes: make([][]command.Envelope, len(g.inboxes)),
		rnd: rand.New(rand.NewPCG(rnd.Uint64(), rnd.Uint64())),
	}
	w.Wake = func() {
		select {
		case w.wakeup <- struct{}{}:
		default:
		}
	}
	return w
}

func (g *testGraph) notify() {
	select {
	case g.progress <- struct{}{}:
	default:
	}
}

func (g *testGraph) bind(in *Inbox, to int) {
	if to < len(g.pools) {
		in.Settings().Bind(g.pools[to])
		return
	}
	in.Settings().Bind(nil)
}

func (w *graphWorker) does(what string) { w.doing.Store(&what) }

func (w *graphWorker) join() {
	if w.pool != nil {
		w.pool.Join(&w.Member)
		return
	}
	if w.own.Instances().Claim(&w.Member) {
		w.Instance = new(testInstance)
	}
	w.own.Workers().Join(&w.Member, false)
}

// work takes turns until the worker is asked to leave.
func (w *graphWorker) work() {
	w.join()
	for {
		w.does("sleeps")
		for !w.Ready() {
			<-w.wakeup
		}
		w.does("hands over")
		if !w.deliver(true) {
			continue
		}
		w.does("takes a turn")
		in, n := w.turn(false)
		if n == 0 {
			runtime.Gosched()
			in, n = w.turn(true)
		}
		w.Surplus = nil
		switch {
		case n < 0:
			w.leave()
			if w.graph.ending.Load() {
				return
			}
			w.Instance = nil
			w.join() // another worker takes its place
		case n > 0:
			w.does("works in " + in.Name())
			w.handle(in, n)
		}
	}
}

func (w *graphWorker) leave() {
	if w.pool != nil {
		w.pool.Leave(&w.Member, &w.tally)
		return
	}
	w.own.Yield(&w.Member)
	w.own.Workers().Leave(&w.Member)
	w.Instance = nil
	w.own.Instances().Return(&w.Member)
}

func (w *graphWorker) turn(park bool) (*Inbox, int) {
	if w.pool != nil {
		return w.pool.Turn(&w.Member, &w.tally, park)
	}
	return w.own, w.own.Turn(&w.Member, &w.tally, park)
}

func (w *graphWorker) deliver(park bool) bool {
	for i, es := range w.outboxes {
		if len(es) == 0 {
			continue
		}
		n := w.graph.inboxes[i].Senders().HandOver(&w.Member, es, 0, w.pool != nil, park)
		w.outboxes[i] = slices.Clone(es[n:])
		if len(w.outboxes[i]) > 0 {
			return false
		}
	}
	return true
}

func (w *graphWorker) handle(in *Inbox, n int) {
	if w.Instance == nil {
		w.Instance = new(testInstance)
	}
	ways := w.graph.edges[in.Place]
	for i, e := range w.Batch[:n] {
		if w.rnd.IntN(50) == 0 {
			w.crash(in, i, n)
			return
		}
		if len(ways) == 0 {
			w.tally.OK++
			w.graph.through.Add(1)
			continue
		}
		to := ways[w.rnd.IntN(len(ways))]
		w.tally.Forwarded++
		w.outboxes[to] = append(w.outboxes[to], command.Envelope{Load: e.Load})
	}
	if len(ways) == 0 {
		w.graph.notify()
	}
}

// crash crashes at command i of n. Another actor takes over the member.
func (w *graphWorker) crash(in *Inbox, i, n int) {
	batch := slices.Clone(w.Batch[:n])
	culprit := &batch[i]
	culprit.Failed()
	in.Book(&w.Member, &w.tally, &Crashed{Culprit: culprit, Rest: batch[i+1:], Retry: culprit.Tries() < in.state.cfg.Retry.Attempts, Err: ErrStopped})
	all := w.deliver(false)
	if w.pool != nil {
		w.pool.Leave(&w.Member, &w.tally)
		in.Yield(&w.Member)
		in.Instances().Return(&w.Member)
	} else {
		if all {
			in.Yield(&w.Member)
		}
		in.Instances().Return(&w.Member)
	}
	w.Instance = nil
	w.join()
}

// changeSomething does, at random, what controllers and callers of the pipeline do.
func (g *testGraph) changeSomething(rnd *rand.Rand) {
	in, sp := g.inboxes[rnd.IntN(len(g.inboxes))], g.pools[rnd.IntN(len(g.pools))]
	switch rnd.IntN(9) {
	case 0, 1:
		g.bind(in, rnd.IntN(3))
	case 2:
		sp.SetPlan(&controller.VisitPlan{
			Order: []controller.StageID{controller.StageID(rnd.IntN(5)), controller.StageID(rnd.IntN(5))}, Now: rnd.IntN(2) == 0,
			Gating: controller.Gating(rnd.IntN(4)), Bound: rnd.IntN(3), Quantum: time.Duration(rnd.IntN(2)) * time.Microsecond,
			Restart: rnd.IntN(2) == 0, Advance: rnd.IntN(2) == 0,
		})
	case 3:
		{
			sp.SetDispatch(dispatchModes[rnd.IntN(3)])
		}
	case 4:
		paused := rnd.IntN(3) == 0
		in.Settings().Adjust(func(k *Knobs) { k.Paused = paused })
	case 5:
		n := rnd.IntN(3)
		in.Settings().Adjust(func(k *Knobs) { k.Instances, k.Capacity, k.Priority = 2+n%2, 1+2*n, n })
	case 6:
		in.Rest(time.Duration(rnd.IntN(100)) * time.Microsecond)
	case 7:
		sp.Shrink(1)
		sp.Unshrink(1)
	default:
		runtime.Gosched()
	}
}

// unblock undoes all changes that keep workers from their work.
func (g *testGraph) unblock() {
	for _, sp := range g.pools {
		sp.Unshrink(100)
	}
	for _, in := range g.inboxes {
		in.Settings().Adjust(func(k *Knobs) { k.Paused = false })
	}
}

// describe says what each inbox, pool and worker does.
func (g *testGraph) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "accepted %d, through %d, dead %d\n", g.accepted.Load(), g.through.Load(), g.dead.Load())
	for i, s := range Snapshot(g.inboxes) {
		in := g.inboxes[i]
		served := "its own workers"
		if s.Pool != nil {
			served = s.Pool.Name()
		}
		in.mu.Lock()
		fmt.Fprintf(&b, "%s, served by %s: queued %d of %d, in hand %d, out %d of %d, made %d, idle instances %d, tokens %d, stalled %v, resting %v, behind %d, blocked %d\n",
			in.Name(), served, s.Queue.Queued, s.Knobs.Capacity, s.Queue.InHand, s.Out, s.Knobs.Instances, in.state.instances.Inspect().Made, len(in.state.instances.Inspect().Idle), in.state.visits.tokens,
			in.state.visits.stalled, in.state.visits.resting, len(in.state.visits.behind), len(in.state.senders.forSlots))
		in.mu.Unlock()
	}
	for _, sp := range g.pools {
		set, _, tokens := sp.Inspect()
		fmt.Fprintf(&b, "%s, %v: live %d, idle %d, waking %d, tokens %d\n", sp.Name(), sp.Dispatch(), sp.Workers(), len(set.Idle), set.Waking, tokens)
	}
	for i, w := range g.workers {
		doing := "nothing"
		if p := w.doing.Load(); p != nil {
			doing = *p
		}
		fmt.Fprintf(&b, "worker %d %s, ready %v\n", i, doing, w.Ready())
	}
	return b.String()
}

// Shared pools, workers of the stages' own, crashes, and changes all the time: each accepted command comes to its end.
func TestSharedPoolsLoseNoCommandWhateverIsChangedMeanwhile(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		seed := rand.Uint64()
		runGraph(t, seed)
	}
}

func runGraph(t *testing.T, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	g := newTestGraph(rnd)
	var workers, submitters, decisions sync.WaitGroup
	for _, w := range g.workers {
		workers.Go(w.work)
	}
	for p := range 3 {
		submitters.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithCancel(context.Background())
				if (i+p)%5 == 0 {
					go cancel()
				}
				if submitTo(ctx, g.inboxes[0], i) == nil {
					g.accepted.Add(1)
				}
				cancel()
			}
		})
	}
	came := make(chan struct{})
	decisions.Go(func() {
		for {
			select {
			case <-came:
				g.unblock()
				return
			default:
				g.changeSomething(rnd)
				runtime.Gosched()
			}
		}
	})
	go func() { defer close(came); submitters.Wait() }()
	timeout := time.NewTimer(30 * time.Second) // ends only if a worker is stuck
	defer timeout.Stop()
	wait := func(c <-chan struct{}) {
		select {
		case <-c:
		case <-timeout.C:
			require.FailNow(t, "stuck", "seed %d\n%s", seed, g.describe())
		}
	}
	wait(came)
	decisions.Wait()
	for g.through.Load()+g.dead.Load() < g.accepted.Load() {
		wait(g.progress)
	}
	require.Equal(t, g.accepted.Load(), g.through.Load()+g.dead.Load(), "seed %d", seed)
	g.ending.Store(true)
	for _, in := range g.inboxes {
		in.Workers().Shrink(1)
	}
	gone := make(chan struct{})
	go func() { defer close(gone); workers.Wait() }()
	for again := true; again; {
		for _, sp := range g.pools {
			sp.Unshrink(100)
			sp.Shrink(10) // once should suffice; see TestAWorkerThatIsAboutToParkIsDismissedToo
		}
		select {
		case <-gone:
			again = false
		case <-timeout.C:
			require.FailNow(t, "workers have not left", "seed %d\n%s", seed, g.describe())
		case <-time.After(time.Millisecond):
		}
	}
	for _, s := range Snapshot(g.inboxes) {
		require.Equal(t, s.Counts.Accepted, s.Counts.OK+s.Counts.Forwarded+s.Counts.DeadLettered, "seed %d: %+v", seed, s)
		require.Zero(t, s.Queue.Load()+s.Out+s.Workers.Busy, "seed %d: %+v", seed, s)
	}
	for _, in := range g.inboxes {
		require.Len(t, in.state.instances.Inspect().Idle, in.state.instances.Inspect().Made, "seed %d", seed)
		require.Empty(t, in.state.visits.behind, "seed %d", seed)
	}
}
