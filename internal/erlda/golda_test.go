package erlda

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// goldaWorld is an actor system in which Golda's pipelines are started.
type goldaWorld struct {
	actors  *actor.System
	systems []*goldaSystem
}

func newGoldaWorld() *goldaWorld {
	return &goldaWorld{actors: actor.NewSystem(slog.New(slog.DiscardHandler))}
}

// close stops hard: what a scenario left behind does not matter. Then it waits for protoactor's log, whose throttle
// sleeps for a moment.
func (h *goldaWorld) close() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, g := range h.systems {
		_ = g.p.Stop(now)
		g.endClients()
		g.starterLeaves()
	}
	settle(time.Second)
}

func (h *goldaWorld) start(l layout) (system, error) {
	g := &goldaSystem{stages: map[string]*stage.Stage[job]{}, spy: &spy{law: l.policy, rebalance: l.rebalance}}
	if l.policy == nil {
		g.spy.law = policy.ERLDA{}
	}
	parts := []pipeline.Part{
		pipeline.System(h.actors), pipeline.Control(g.spy), pipeline.Logger(slog.New(slog.DiscardHandler)),
	}
	if l.restarts > 0 {
		parts = append(parts, pipeline.Intensity(l.restarts, time.Minute))
	}
	for _, sp := range l.stages {
		st := g.stage(sp)
		if !sp.absent {
			parts = append(parts, st)
		}
	}
	var err error
	if g.p, err = pipeline.New("erlda", parts...); err != nil {
		return nil, err
	}
	g.clients, g.endClients = context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	g.starterLeaves = cancel
	if err := g.p.Start(ctx); err != nil {
		return nil, err
	}
	h.systems = append(h.systems, g)
	synctest.Wait()
	return g, nil
}

// goldaSystem is a running pipeline.
type goldaSystem struct {
	p             *pipeline.Pipeline
	stages        map[string]*stage.Stage[job]
	spy           *spy
	clients       context.Context // ends with the clients
	endClients    context.CancelFunc
	starterLeaves context.CancelFunc
}

func (g *goldaSystem) stage(sp spec) *stage.Stage[job] {
	opts := append([]stage.Option{stage.Workers(cmp.Or(sp.fewest, 10), cmp.Or(sp.most, 200))}, sp.options...)
	st := stage.New(sp.name, behaviour.Func[job](func(ctx context.Context, j job) behaviour.Outcome {
		return g.outcome(sp.handle(ctx, j))
	}), opts...)
	g.stages[sp.name] = st
	return st
}

func (g *goldaSystem) outcome(a answer) behaviour.Outcome {
	switch a.kind {
	case ok:
		return behaviour.OK(a.id)
	case failure:
		return behaviour.Error(a.err)
	case forward:
		return behaviour.Forward(g.stages[a.next], a.job)
	default:
		return behaviour.Outcome{}
	}
}

func (g *goldaSystem) dial() client {
	return &goldaClient{g: g, answers: make(chan reply), heard: map[int]bool{}}
}

func (g *goldaSystem) workers(stage string) int { return g.stages[stage].Snapshot().Workers.Live }
func (g *goldaSystem) queued(stage string) int  { return g.stages[stage].Snapshot().Queue.Queued }
func (g *goldaSystem) add(stage string, n int)  { g.spy.wish(stage, n) }
func (g *goldaSystem) breakController()         { g.spy.broken.Store(true); settle(2 * time.Second) }
func (g *goldaSystem) ticks() int               { return int(g.spy.ticks.Load()) }
func (g *goldaSystem) forget()                  { g.starterLeaves(); synctest.Wait() }
func (g *goldaSystem) alive() bool              { return g.p.Err() == nil }
func (g *goldaSystem) stop() error              { return g.p.Stop(context.Background()) }

func (g *goldaSystem) accounts() (accounts, error) {
	s := g.p.Snapshot()
	return accounts{s.Accepted, s.Replied, s.Failed, s.DeadLettered}, nil
}

// goldaClient is a client with tickets: an answer belongs to its question, and the answer to a question that was given
// up is dropped.
type goldaClient struct {
	g       *goldaSystem
	answers chan reply
	asked   int
	heard   map[int]bool // by question: answered, or given up
}

type reply struct {
	to  int // the number of the question
	id  int
	err error
}

// send calls in the background, so that a client that a full stage makes wait can continue, as the original's can.
func (c *goldaClient) send(name string, j job) error {
	n := c.asked
	c.asked++
	go func() {
		id, err := stage.Call[int](c.g.clients, c.g.stages[name], j)
		select {
		case c.answers <- reply{n, id, err}:
		case <-c.g.clients.Done():
		}
	}()
	synctest.Wait()
	return nil
}

func (c *goldaClient) receive() (int, error) {
	patience := time.After(patience)
	for {
		select {
		case r := <-c.answers:
			if c.heard[r.to] {
				continue
			}
			c.heard[r.to] = true
			return r.id, r.err
		case <-patience:
			c.giveUp()
			return 0, errSilence
		}
	}
}

func (c *goldaClient) giveUp() {
	for n := range c.asked {
		c.heard[n] = true
	}
}

// spy is a policy around another one, with which scenarios count its ticks, break it and ask for workers.
type spy struct {
	law       controller.Policy
	rebalance func()
	ticks     atomic.Int64
	broken    atomic.Bool

	mu     sync.Mutex // guards wishes
	wishes map[string]int
}

func (e *spy) Name() string               { return e.law.Name() }
func (e *spy) Check() error               { return e.law.Check() }
func (e *spy) New() controller.Controller { return &spyController{e, e.law.New()} }

func (e *spy) wish(stage string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wishes == nil {
		e.wishes = map[string]int{}
	}
	e.wishes[stage] += n
}

func (e *spy) take(stage string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.wishes[stage]
	delete(e.wishes, stage)
	return n
}

type spyController struct {
	spy *spy
	law controller.Controller
}

func (l *spyController) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	d.Every(time.Second)
	if ev.Kind == controller.EventTick {
		l.tick()
	}
	l.law.Control(ev, s, d)
	for i := range s.Stages {
		st := &s.Stages[i]
		if n := l.spy.take(st.Name); n != 0 {
			controller.KnobWorkers.Set(d, st.ID, st.Workers+n, "as the scenario asks")
		}
	}
}

func (l *spyController) tick() {
	l.spy.ticks.Add(1)
	if l.spy.broken.CompareAndSwap(true, false) {
		panic("controller broken on purpose")
	}
	if l.spy.rebalance != nil {
		l.spy.rebalance()
	}
}
