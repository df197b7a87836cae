package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/route"
)

// hop is a command on its way: its number, and the stage that it comes from.
type hop struct {
	id   int
	from string
}

// maze is a pipeline of a first stage, a last one, and stages between them that come and go. Its wires change at random; they lead
// from a stage to later ones. Each command takes one way from the first stage to the last.
type maze struct {
	p       *pipeline.Pipeline
	last    *stage.Flow[hop, struct{}]
	stages  []*crossing // without the last
	crossed int

	mu    sync.Mutex
	wired map[[2]string]bool // from one stage to another, at some time
	wrong []string           // hops where no wire led
	ends  map[int]int        // how often each command has ended
}

// crossing is a stage of the maze and how it is connected.
type crossing struct {
	*stage.Stage[hop]
	lead func(to ...behaviour.Target[hop]) pipeline.Part
}

// at notes that a command has come to a stage, and returns it as it goes on.
func (m *maze) at(name string, h hop) hop {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.from != "" && !m.wired[[2]string{h.from, name}] {
		m.wrong = append(m.wrong, h.from+" to "+name)
	}
	if name == "last" {
		m.ends[h.id]++
	}
	return hop{h.id, name}
}

// crossing makes a stage of a random kind.
func (m *maze) crossing(t *rapid.T) *crossing {
	m.crossed++
	name := fmt.Sprintf("stage %d", m.crossed)
	opts := []stage.Option{
		stage.Capacity(rapid.IntRange(1, 8).Draw(t, "capacity")),
		stage.Workers(1, rapid.IntRange(1, 4).Draw(t, "workers")),
		stage.Batch(rapid.SampledFrom([]int{1, 16}).Draw(t, "batch")),
	}
	kind := rapid.SampledFrom([]string{"flow", "ordered", "forwards", "emits", "suspends"}).Draw(t, "kind")
	if kind == "ordered" {
		opts = append(opts, stage.Ordered())
	}
	if kind == "flow" || kind == "ordered" {
		f := stage.Map(name, func(_ context.Context, h hop) (hop, error) { return m.at(name, h), nil }, opts...)
		return &crossing{f.Stage, func(to ...behaviour.Target[hop]) pipeline.Part {
			return f.Route(route.RoundRobin[hop](), to...)
		}}
	}
	out := behaviour.NewPort[hop]("out")
	c := &crossing{lead: func(to ...behaviour.Target[hop]) pipeline.Part { return pipeline.Wire(out, to[0]) }}
	opts = append(opts, stage.Out(out))
	emit := func(ctx context.Context, h hop) behaviour.Outcome {
		if err := behaviour.Emit(ctx, out, m.at(name, h)); err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(nil)
	}
	switch kind {
	case "forwards":
		c.Stage = stage.Func(name, func(_ context.Context, h hop) behaviour.Outcome { return behaviour.Forward(out, m.at(name, h)) }, opts...)
	case "emits":
		c.Stage = stage.Func(name, emit, opts...)
	default:
		c.Stage = stage.Coroutine(name, func(c coroutine.Context, h hop) behaviour.Outcome {
			o := emit(c, h)
			if err := coroutine.Sleep(c, 20*time.Microsecond); err != nil {
				return behaviour.Error(err)
			}
			return o
		}, opts...)
	}
	return c
}

// wire returns the part that has a stage lead to random later ones, and notes where.
func (m *maze) wire(t *rapid.T, i int) pipeline.Part {
	to := []behaviour.Target[hop]{m.last}
	for _, c := range m.stages[i+1:] {
		if rapid.Bool().Draw(t, "leads to "+c.Name()) {
			to = append(to, c.Stage)
		}
	}
	slices.Reverse(to) // of a port, only the first counts
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range to {
		m.wired[[2]string{m.stages[i].Name(), one.Inlet().Name()}] = true
	}
	return m.stages[i].lead(to...)
}

// step adds a stage, removes one, or rewires some.
func (m *maze) step(ctx context.Context, t *rapid.T) {
	var wires []pipeline.Part
	rewireAll := func(before int) {
		for i := range before {
			if i == 0 || rapid.Bool().Draw(t, "rewires "+m.stages[i].Name()) {
				wires = append(wires, m.wire(t, i))
			}
		}
	}
	switch do := rapid.SampledFrom([]string{"add", "rewire", "remove"}).Draw(t, "step"); {
	case do == "add" || len(m.stages) == 1:
		c := m.crossing(t)
		m.stages = append(m.stages, c)
		require.NoError(t, m.p.Add(ctx, c.Stage, m.wire(t, len(m.stages)-1)))
		rewireAll(len(m.stages) - 1)
	case do == "rewire":
		rewireAll(len(m.stages))
	default:
		i := rapid.IntRange(1, len(m.stages)-1).Draw(t, "removes")
		gone := m.stages[i]
		m.stages = slices.Delete(m.stages, i, i+1)
		for j := range i {
			wires = append(wires, m.wire(t, j))
		}
		defer func() { require.NoError(t, m.p.Remove(ctx, gone.Stage)) }()
	}
	require.NoError(t, m.p.Rewire(ctx, wires...))
}

func TestRandomRewiresUnderLoadLoseNoCommandAndLeadWhereAWireLed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &maze{wired: map[[2]string]bool{}, ends: map[int]int{}}
		m.last = stage.Sink("last", func(_ context.Context, h hop) error { m.at("last", h); return nil }, stage.Capacity(4))
		m.stages = []*crossing{m.crossing(t)}
		laws := map[string]pipeline.Part{
			"fixed": pipeline.Control(sharing(controller.SharedFIFO, nil)), "polled": pipeline.Control(sharing(controller.Polled, nil)), "own": pipeline.Subgraph(),
		}
		law := laws[rapid.SampledFrom([]string{"fixed", "polled", "own"}).Draw(t, "law")]
		p, err := pipeline.New("test", m.stages[0].Stage, m.wire(t, 0), m.last, law, pipeline.System(system()), quiet)
		require.NoError(t, err)
		m.p = p
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, p.Start(ctx))
		over, loaded := make(chan struct{}), make(chan error, 1)
		sent := 0
		first := m.stages[0].Stage
		go func() { loaded <- load(ctx, first, over, &sent) }()
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			m.step(ctx, t)
		}
		close(over)
		require.NoError(t, <-loaded)
		require.NoError(t, p.Stop(ctx))
		s := p.Snapshot()
		require.True(t, s.Balanced(), s.Law())
		require.Zero(t, s.DeadLettered+s.Failed+s.Shed+s.InFlight, s.Law())
		require.Empty(t, m.wrong)
		require.Len(t, m.ends, sent)
		for id, n := range m.ends {
			require.Equal(t, 1, n, "command %d", id)
		}
	})
}

// load sends commands to a stage until over is closed, and waits for the end of each.
func load(ctx context.Context, first *stage.Stage[hop], over <-chan struct{}, sent *int) error {
	var tickets []*stage.Ticket
	for {
		select {
		case <-over:
			for _, ticket := range tickets {
				if _, err := ticket.Wait(ctx); err != nil {
					return err
				}
			}
			return nil
		default:
		}
		ticket, err := first.Ask(ctx, hop{id: *sent})
		if err != nil {
			return err
		}
		*sent++
		if tickets = append(tickets, ticket); len(tickets) > 64 {
			if _, err := tickets[0].Wait(ctx); err != nil {
				return err
			}
			tickets = tickets[1:]
		}
	}
}
