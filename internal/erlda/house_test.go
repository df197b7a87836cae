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

// house is an actor system in which Golda's pipelines are started.
type house struct {
	actors  *actor.System
	systems []*goldaSystem
}

func newHouse() *house { return &house{actors: actor.NewSystem(slog.New(slog.DiscardHandler))} }

// close stops hard: what a scenario left behind is of no interest. Then it waits
// for protoactor's log, whose throttle sleeps for a moment.
func (h *house) close() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, g := range h.systems {
		_ = g.p.Stop(now)
		g.hangUp()
		g.starterLeaves()
	}
	settle(time.Second)
}

func (h *house) start(l layout) (system, error) {
	g := &goldaSystem{stages: map[string]*stage.Stage[job]{}, eye: &eye{law: l.policy, rebalance: l.rebalance}}
	if l.policy == nil {
		g.eye.law = policy.ERLDA{}
	}
	parts := []pipeline.Part{
		pipeline.System(h.actors), pipeline.Control(g.eye), pipeline.Logger(slog.New(slog.DiscardHandler)),
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
	g.lines, g.hangUp = context.WithCancel(context.Background())
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
	eye           *eye
	lines         context.Context // of the clients
	hangUp        context.CancelFunc
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

func (g *goldaSystem) workers(stage string) int { return g.stages[stage].Snapshot().Workers }
func (g *goldaSystem) queued(stage string) int  { return g.stages[stage].Snapshot().Queued }
func (g *goldaSystem) add(stage string, n int)  { g.eye.wish(stage, n) }
func (g *goldaSystem) breakController()         { g.eye.broken.Store(true); settle(2 * time.Second) }
func (g *goldaSystem) looks() int               { return int(g.eye.ticks.Load()) }
func (g *goldaSystem) forget()                  { g.starterLeaves(); synctest.Wait() }
func (g *goldaSystem) alive() bool              { return g.p.Err() == nil }
func (g *goldaSystem) stop() error              { return g.p.Stop(context.Background()) }

func (g *goldaSystem) accounts() (accounts, error) {
	s := g.p.Snapshot()
	return accounts{s.Accepted, s.Replied, s.Failed, s.DeadLettered}, nil
}

// goldaClient is somebody with tickets: an answer belongs to its question, and the
// answer to a question that was given up belongs to nobody.
type goldaClient struct {
	g       *goldaSystem
	answers chan reply
	asked   int
	heard   map[int]bool // by question: answered, or given up
}

type reply struct {
	to  int // which question
	id  int
	err error
}

// send calls in the background, so that a client whom a full stage keeps waiting
// can go on as the original's can.
func (c *goldaClient) send(name string, j job) error {
	n := c.asked
	c.asked++
	go func() {
		id, err := stage.Call[int](c.g.lines, c.g.stages[name], j)
		select {
		case c.answers <- reply{n, id, err}:
		case <-c.g.lines.Done():
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

// eye is a policy around another, so that scenarios can count its looks, break
// it and ask for workers.
type eye struct {
	law       controller.Policy
	rebalance func()
	ticks     atomic.Int64
	broken    atomic.Bool

	mu     sync.Mutex // guards wishes
	wishes map[string]int
}

func (e *eye) Name() string               { return e.law.Name() }
func (e *eye) Check() error               { return e.law.Check() }
func (e *eye) New() controller.Controller { return &looker{e, e.law.New()} }

func (e *eye) wish(stage string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wishes == nil {
		e.wishes = map[string]int{}
	}
	e.wishes[stage] += n
}

func (e *eye) take(stage string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.wishes[stage]
	delete(e.wishes, stage)
	return n
}

type looker struct {
	eye *eye
	law controller.Controller
}

func (l *looker) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	d.Every(time.Second)
	if ev.Kind == controller.EventTick {
		l.look()
	}
	l.law.Control(ev, s, d)
	for i := range s.Stages {
		st := &s.Stages[i]
		if n := l.eye.take(st.Name); n != 0 {
			d.Workers(st.ID, st.Workers+n, "as the scenario asks")
		}
	}
}

func (l *looker) look() {
	l.eye.ticks.Add(1)
	if l.eye.broken.CompareAndSwap(true, false) {
		panic("controller broken on purpose")
	}
	if l.eye.rebalance != nil {
		l.eye.rebalance()
	}
}
