package pipeline_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/route"
)

// double returns a flow that doubles.
func double(name string, opts ...stage.Option) *stage.Flow[int, int] {
	return stage.Map(name, func(_ context.Context, n int) (int, error) { return 2 * n, nil }, opts...)
}

// toldBy returns a sink that adds its name to a story.
func toldBy(s *story, name string, opts ...stage.Option) *stage.Flow[int, struct{}] {
	return stage.Sink(name, func(context.Context, int) error { s.add(name); return nil }, opts...)
}

// callTold calls a stage, and returns the sinks that were told, sorted.
func callTold(t *testing.T, s *stage.Stage[int], said *story) string {
	t.Helper()
	_, err := stage.Call[any](t.Context(), s, 1)
	require.NoError(t, err)
	words := strings.Fields(said.take())
	slices.Sort(words)
	return strings.Join(words, " ")
}

func TestARewiredPortOrFlowLeadsElsewhere(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		var said story
		out := behaviour.NewPort[int]("out")
		first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(out, n) }, stage.Out(out))
		flow := double("flow")
		a, b, c := toldBy(&said, "a"), toldBy(&said, "b"), toldBy(&said, "c")
		p := bubble(t, first, pipeline.Wire(out, a), flow.To(a), b, c, pipeline.Control(law))
		require.Equal(t, "a", callTold(t, first, &said))
		require.Equal(t, "a", callTold(t, flow.Stage, &said))
		require.NoError(t, p.Rewire(t.Context(), pipeline.Subgraph(pipeline.Wire(out, b), flow.To(b, c))))
		require.Equal(t, "b", callTold(t, first, &said))
		require.Equal(t, "b c", callTold(t, flow.Stage, &said))
		require.NoError(t, p.Rewire(t.Context(), flow.Route(route.RoundRobin[int](), a, b)))
		require.Equal(t, "a", callTold(t, flow.Stage, &said))
		require.Equal(t, "b", callTold(t, flow.Stage, &said))
		require.NoError(t, p.Rewire(t.Context(), flow.To(c)))
		require.Equal(t, "c", callTold(t, flow.Stage, &said))
		require.Equal(t, "b", callTold(t, first, &said))
		end(t, p)
	})
}

func TestTheGraphHasTheNewWiresAndNotTheOldOnes(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var said story
		out, flow := behaviour.NewPort[int]("out"), double("flow")
		first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(out, n) }, stage.Out(out))
		a, b, c := toldBy(&said, "a"), toldBy(&said, "b"), toldBy(&said, "c")
		p := bubble(t, first, flow, a, b, c, pipeline.Wire(out, flow), flow.To(a, b))
		callTold(t, first, &said)
		require.NoError(t, p.Rewire(t.Context(), pipeline.Wire(out, b), flow.To(c)))
		callTold(t, first, &said)
		callTold(t, flow.Stage, &said)
		var edges []string
		for line := range strings.Lines(p.Mermaid()) {
			if strings.Contains(line, ">|") {
				edges = append(edges, strings.TrimSpace(line))
			}
		}
		require.Equal(t, []string{`s0 -->|"out"| s3`, `s1 -->|"to c"| s4`}, edges)
		require.Contains(t, p.DOT(), `s0 -> s3 [style=solid, label="out"]`)
		require.NotContains(t, p.DOT(), "s0 -> s1")
		require.NoError(t, p.SetPolicy(once(func(s *controller.Snapshot, _ *controller.Decisions) {
			require.Equal(t, []string{"first0b", "flow0c", "a0", "b1", "c1"}, seen(s))
		})))
		end(t, p)
	})
}

// A handler that names a stage itself goes on to do so, and the graph shows that from the next time on.
func TestAnEdgeThatAHandlerTakesItselfIsKnownAgainAfterAWireToTheSameStageHasGone(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		var said story
		out, a, b := behaviour.NewPort[int]("out"), toldBy(&said, "a"), toldBy(&said, "b")
		first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome {
			if n > 1 {
				return behaviour.Forward(a, n)
			}
			return behaviour.Forward(out, n)
		}, stage.Out(out))
		p := bubble(t, first, a, b, pipeline.Wire(out, a), pipeline.Control(law))
		submit(t, first, 2)
		synctest.Wait()
		require.NoError(t, p.Rewire(t.Context(), pipeline.Wire(out, b)))
		require.NotContains(t, p.Mermaid(), "s0 -.-> s1")
		submit(t, first, 2)
		synctest.Wait()
		require.Contains(t, p.Mermaid(), "s0 -.-> s1")
		require.Contains(t, p.Mermaid(), `s0 -->|"out"| s2`)
		require.Equal(t, "a a", said.take())
		end(t, p)
	})
}

func TestAFlowThatRepliedLeadsOnWhenItIsRewired(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		first, second := double("first"), double("second")
		p := bubble(t, first, second)
		n, err := first.Call(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.NoError(t, p.Rewire(t.Context(), first.To(second)))
		n, err = first.Call(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		end(t, p)
	})
}

// A stage is replaced while commands come: added, wired, and the old one removed.
func TestAStageIsReplacedUnderLoadAndNoCommandIsLost(t *testing.T) {
	kinds := map[string]func(out *behaviour.Port[int]) (s *stage.Stage[int], to func(behaviour.Target[int]) pipeline.Part){
		"a port": func(out *behaviour.Port[int]) (*stage.Stage[int], func(behaviour.Target[int]) pipeline.Part) {
			s := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(out, n) }, stage.Out(out), stage.Capacity(8))
			return s, func(to behaviour.Target[int]) pipeline.Part { return pipeline.Wire(out, to) }
		},
		"a flow": func(*behaviour.Port[int]) (*stage.Stage[int], func(behaviour.Target[int]) pipeline.Part) {
			f := stage.Map("first", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Capacity(8))
			return f.Stage, func(to behaviour.Target[int]) pipeline.Part { return f.To(to) }
		},
		"an ordered flow": func(*behaviour.Port[int]) (*stage.Stage[int], func(behaviour.Target[int]) pipeline.Part) {
			f := stage.Map("first", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Capacity(8), stage.Ordered())
			return f.Stage, func(to behaviour.Target[int]) pipeline.Part { return f.To(to) }
		},
		"a handler that emits and suspends": func(out *behaviour.Port[int]) (*stage.Stage[int], func(behaviour.Target[int]) pipeline.Part) {
			s := stage.Coroutine("first", func(c coroutine.Context, n int) behaviour.Outcome {
				if err := behaviour.Emit(c, out, n); err != nil {
					return behaviour.Error(err)
				}
				if err := coroutine.Sleep(c, 50*time.Microsecond); err != nil {
					return behaviour.Error(err)
				}
				return behaviour.OK(nil)
			}, stage.Out(out), stage.Capacity(8), stage.Instances(16))
			return s, func(to behaviour.Target[int]) pipeline.Part { return pipeline.Wire(out, to) }
		},
		"a handler that crashes at times": func(out *behaviour.Port[int]) (*stage.Stage[int], func(behaviour.Target[int]) pipeline.Part) {
			var calls atomic.Int64
			s := stage.Func("first", func(ctx context.Context, n int) behaviour.Outcome {
				if calls.Add(1)%50 == 0 {
					panic(errNo)
				}
				return behaviour.Forward(out, n)
			}, stage.Out(out), stage.Capacity(8), stage.Retry(stage.RetryPolicy{Attempts: 1 << 10}), stage.Restart(stage.RestartPolicy{Limit: 1 << 20}))
			return s, func(to behaviour.Target[int]) pipeline.Part { return pipeline.Wire(out, to) }
		},
	}
	laws := map[string]controller.Policy{"own workers": nil, "shared workers": sharing(controller.SharedFIFO, nil)}
	for kind, first := range kinds {
		for owner, law := range laws {
			t.Run(kind+", "+owner, func(t *testing.T) { replaceUnderLoad(t, first, law) })
		}
	}
}

func replaceUnderLoad(
	t *testing.T, of func(*behaviour.Port[int]) (*stage.Stage[int], func(behaviour.Target[int]) pipeline.Part), law controller.Policy,
) {
	var handled atomic.Int64
	saver := func(name string) *stage.Flow[int, struct{}] {
		return stage.Sink(name, func(context.Context, int) error { handled.Add(1); return nil }, stage.Capacity(4), stage.Workers(1, 2))
	}
	first, to := of(behaviour.NewPort[int]("out"))
	save := saver("save 0")
	parts := []pipeline.Part{first, to(save), save}
	if law != nil {
		parts = append(parts, pipeline.Control(law))
	}
	p := run(t, parts...)
	stop, loaded := make(chan struct{}), make(chan struct{})
	var sent atomic.Int64
	ctx := soon(t)
	go func() {
		defer close(loaded)
		var tickets []*stage.Ticket
		for {
			select {
			case <-stop:
				for _, ticket := range tickets {
					_, err := ticket.Wait(ctx)
					assert.NoError(t, err)
				}
				return
			default:
			}
			ticket, err := first.Ask(ctx, int(sent.Add(1)))
			if !assert.NoError(t, err) {
				return
			}
			if tickets = append(tickets, ticket); len(tickets) == 64 {
				_, err := tickets[0].Wait(ctx)
				assert.NoError(t, err)
				tickets = tickets[1:]
			}
		}
	}()
	for i := range 8 {
		before := sent.Load()
		eventually(t, "commands come", func() bool { return sent.Load() > before+20 })
		next := saver("save " + string(rune('1'+i)))
		require.NoError(t, p.Add(soon(t), next))
		require.NoError(t, p.Rewire(soon(t), to(next)))
		require.NoError(t, p.Remove(soon(t), save))
		save = next
	}
	close(stop)
	<-loaded
	require.Equal(t, sent.Load(), handled.Load())
	s := p.Snapshot()
	require.Zero(t, s.DeadLettered+s.Failed+s.Shed, s.Law())
	require.Len(t, s.Stages, 2)
}

func TestRewireReturnsWhenWhatWasSentTheOldWayHasArrived(t *testing.T) {
	forEachOwner(t, func(t *testing.T, law controller.Policy) {
		var said story
		hold := make(chan struct{})
		flow := stage.Map("flow", func(_ context.Context, n int) (int, error) { <-hold; return n, nil })
		a, b := toldBy(&said, "a"), toldBy(&said, "b")
		p := bubble(t, flow.To(a), b, pipeline.Control(law))
		submit(t, flow, 1)
		synctest.Wait()
		rewired := make(chan error, 1)
		go func() { rewired <- p.Rewire(t.Context(), flow.To(b)) }()
		time.Sleep(time.Second)
		require.Empty(t, rewired, "a handler is at work, which may have read the old wire")
		close(hold)
		require.NoError(t, <-rewired)
		synctest.Wait()
		require.Equal(t, "b", said.take(), "it has read the new one")
		end(t, p)
	})
}

func TestTheOldStageGetsWhatWasForItAndTheNextRemoveWaitsForThat(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var said story
		flow := double("flow", stage.Workers(1, 1), stage.Batch(1))
		a, b := toldBy(&said, "a", stage.Capacity(1), stage.Workers(1, 1)), toldBy(&said, "b")
		p := bubble(t, flow.To(a), b)
		require.NoError(t, p.Pause(a))
		submit(t, flow, 1, 2, 3) // one is queued, one carried, one waits behind it
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errNo)
		defer cancel()
		err := p.Rewire(ctx, flow.To(b))
		require.ErrorIs(t, err, errNo)
		require.ErrorContains(t, err, `pipeline "bubble": rewire: the new wires hold: stage "flow" may still send commands to stage "a": no`)
		late, stop := context.WithTimeoutCause(t.Context(), time.Second, errNo)
		defer stop()
		err = p.Remove(late, a)
		require.ErrorIs(t, err, errNo)
		require.ErrorContains(t, err, `remove stage "a": stage "flow" may still send commands to stage "a"`)
		require.NoError(t, p.Resume(a))
		require.NoError(t, p.Remove(t.Context(), a))
		synctest.Wait()
		words := strings.Fields(said.take())
		slices.Sort(words)
		require.Equal(t, []string{"a", "a", "b"}, words)
		require.Zero(t, p.Snapshot().DeadLettered)
		end(t, p)
	})
}

func TestASuspendedHandlerThatHasEmittedTheOldWayIsWaitedFor(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var said story
		wake := make(chan struct{})
		out := behaviour.NewPort[int]("out")
		first := stage.Coroutine("first", func(c coroutine.Context, n int) behaviour.Outcome {
			if n == 1 {
				if err := behaviour.Emit(c, out, n); err != nil {
					return behaviour.Error(err)
				}
			}
			if _, err := coroutine.Await(c, func(context.Context) (int, error) { <-wake; return 0, nil }); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.Forward(out, n)
		}, stage.Out(out))
		a, b, c := toldBy(&said, "a"), toldBy(&said, "b"), toldBy(&said, "c")
		p := bubble(t, first, a, b, c, pipeline.Wire(out, a))
		submit(t, first, 2)
		synctest.Wait()
		require.NoError(t, p.Rewire(t.Context(), pipeline.Wire(out, b)), "it has sent nothing yet")
		submit(t, first, 1)
		synctest.Wait()
		rewired := make(chan error, 1)
		go func() { rewired <- p.Rewire(t.Context(), pipeline.Wire(out, c)) }()
		time.Sleep(time.Second)
		require.Empty(t, rewired)
		close(wake)
		require.NoError(t, <-rewired)
		require.NoError(t, p.Remove(t.Context(), b))
		synctest.Wait()
		words := strings.Fields(said.take())
		slices.Sort(words)
		require.Equal(t, []string{"b", "c", "c"}, words)
		end(t, p)
	})
}

func TestResultsOfAnOrderedStageThatWaitForTheirTurnAreWaitedFor(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var said story
		hold := make(chan struct{})
		flow := stage.Map("flow", func(_ context.Context, n int) (int, error) {
			if n == 0 {
				<-hold
			}
			return n, nil
		}, stage.Ordered(), stage.Workers(2, 2), stage.Batch(1))
		a, b := toldBy(&said, "a"), toldBy(&said, "b")
		p := bubble(t, flow.To(a), b)
		submit(t, flow, 0, 1, 2)
		synctest.Wait()
		require.Equal(t, 2, p.Snapshot().Stages[0].Queue.Waiting)
		rewired := make(chan error, 1)
		go func() { rewired <- p.Rewire(t.Context(), flow.To(b)) }()
		time.Sleep(time.Second)
		require.Empty(t, rewired)
		submit(t, flow, 3)
		synctest.Wait()
		close(hold)
		require.NoError(t, <-rewired)
		require.NoError(t, p.Remove(t.Context(), a))
		synctest.Wait()
		words := strings.Fields(said.take())
		slices.Sort(words)
		require.Equal(t, []string{"a", "a", "b", "b"}, words)
		end(t, p)
	})
}

// A worker may carry commands for a stage that is full for as long as it likes, and be asked nothing else.
func TestAFullStageThatStaysATargetDoesNotHoldRewire(t *testing.T) {
	for name, opts := range map[string][]stage.Option{
		"a worker that takes more meanwhile": nil,
		"a worker that takes no more":        {stage.Batch(1)},
		"an ordered stage":                   {stage.Ordered()},
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var said story
				flow := double("flow", append(opts, stage.Workers(1, 1), stage.Capacity(8))...)
				full := toldBy(&said, "full", stage.Capacity(1), stage.Workers(1, 1))
				a, b := toldBy(&said, "a", stage.Workers(1, 1)), toldBy(&said, "b", stage.Workers(1, 1))
				p := bubble(t, flow.To(a, full), b)
				require.NoError(t, p.Pause(full))
				submit(t, flow, 1, 2, 3, 4)
				synctest.Wait()
				require.NoError(t, p.Rewire(t.Context(), flow.To(b, full)))
				require.NoError(t, p.Remove(t.Context(), a))
				require.NoError(t, p.Resume(full))
				synctest.Wait()
				require.Len(t, strings.Fields(said.take()), 8)
				require.Zero(t, p.Snapshot().DeadLettered)
				end(t, p)
			})
		})
	}
}

// event has a key and a number.
type event struct{ key, n int }

func TestAPauseOfTheNewStageUntilTheOldOneIsRemovedKeepsTheOrder(t *testing.T) {
	out := behaviour.NewPort[event]("out")
	keyed := stage.Keyed("keyed", func(e event) int { return e.key }, func(int) behaviour.Func[event] {
		return fn(func(_ context.Context, e event) behaviour.Outcome { return behaviour.Forward(out, e) })
	}, stage.Out(out), stage.Capacity(16))
	flow := stage.Map("flow", func(_ context.Context, e event) (event, error) { return e, nil }, stage.Workers(1, 1), stage.Capacity(16))
	t.Run("of the keys of a keyed stage", func(t *testing.T) {
		replaceInOrder(t, keyed, func(to *stage.Flow[event, struct{}]) pipeline.Part { return pipeline.Wire(out, to) })
	})
	t.Run("of a stage with one worker", func(t *testing.T) {
		replaceInOrder(t, flow.Stage, func(to *stage.Flow[event, struct{}]) pipeline.Part { return flow.To(to) })
	})
}

func replaceInOrder(t *testing.T, first *stage.Stage[event], lead func(*stage.Flow[event, struct{}]) pipeline.Part) {
	var got [4][]int
	save := func(name string) *stage.Flow[event, struct{}] {
		return stage.Sink(name, func(_ context.Context, e event) error { got[e.key] = append(got[e.key], e.n); return nil },
			stage.Workers(1, 1), stage.Capacity(16))
	}
	old := save("save 0")
	p := run(t, first, old, lead(old))
	ctx := soon(t)
	over, loaded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(loaded)
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			default:
				assert.NoError(t, first.Submit(ctx, event{n % len(got), n}))
			}
		}
	}()
	for i := range 5 {
		next := save("save " + string(rune('1'+i)))
		require.NoError(t, p.Add(ctx, next))
		require.NoError(t, p.Pause(next))
		require.NoError(t, p.Rewire(ctx, lead(next)))
		require.NoError(t, p.Remove(ctx, old))
		require.NoError(t, p.Resume(next))
		old = next
	}
	close(over)
	<-loaded
	require.NoError(t, p.Drain(ctx))
	for key, ns := range got {
		require.True(t, slices.IsSorted(ns), "key %d", key)
	}
	require.Zero(t, p.Snapshot().DeadLettered)
}

// Two stages with one slot each, whose edge is turned around again and again. Were both edges at once such that workers wait
// along them, the stages could wait for each other.
func TestAnEdgeMayBeTurnedAroundUnderLoad(t *testing.T) {
	for name, law := range map[string]controller.Policy{"own workers": nil, "shared workers": sharing(controller.SharedFIFO, nil)} {
		t.Run(name, func(t *testing.T) {
			one, two, last := double("one", stage.Capacity(1)), double("two", stage.Capacity(1)), double("last", stage.Capacity(1))
			parts := []pipeline.Part{one.To(two), two.To(last)}
			if law != nil {
				parts = append(parts, pipeline.Control(law))
			}
			p := run(t, parts...)
			over := make(chan struct{})
			loaded := make(chan error, 4)
			ctx := soon(t)
			for i := range cap(loaded) {
				go func() {
					for {
						select {
						case <-over:
							loaded <- nil
							return
						default:
						}
						if _, err := []*stage.Flow[int, int]{one, two}[i%2].Call(ctx, 1); err != nil {
							loaded <- err
							return
						}
					}
				}()
			}
			for range 20 {
				require.NoError(t, p.Rewire(soon(t), one.To(last), two.To(one)))
				require.NotContains(t, p.Mermaid(), "back")
				require.NoError(t, p.Rewire(soon(t), two.To(last), one.To(two)))
				require.NotContains(t, p.Mermaid(), "back")
			}
			close(over)
			for range cap(loaded) {
				require.NoError(t, <-loaded)
			}
		})
	}
}

func TestAWireThatClosesALoopIsABackEdge(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var count atomic.Int64
		again := stage.Filter("again", func(_ context.Context, n int) (bool, error) { count.Add(1); return n < 8, nil }, stage.Capacity(2))
		twice := double("twice", stage.Capacity(2))
		p := bubble(t, twice.To(again))
		require.NoError(t, p.Rewire(t.Context(), again.To(twice)))
		require.Contains(t, p.Mermaid(), "(back, MaxInFlight)")
		_, err := stage.Call[any](t.Context(), twice.Stage, 1)
		require.NoError(t, err)
		require.EqualValues(t, 3, count.Load())
		end(t, p)
	})
}

func TestRewireRefusesWhatIsWrongAndChangesNothing(t *testing.T) {
	var said story
	out, foreign := behaviour.NewPort[int]("out"), behaviour.NewPort[int]("foreign")
	first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(out, n) }, stage.Out(out), stage.Capacity(1))
	flow, head, tail := double("flow", stage.Capacity(1)), double("head"), double("tail")
	a, b, drained, removed := toldBy(&said, "a"), toldBy(&said, "b"), toldBy(&said, "drained"), newLock("removed", stage.Workers(1, 1))
	elsewhere := double("elsewhere")
	made(t, elsewhere)
	p := run(t, first, pipeline.Wire(out, a), flow.To(a), b, drained, removed, stage.Chain(head, tail))
	require.NoError(t, p.Drain(soon(t), drained))
	submit(t, removed, 1)
	require.ErrorIs(t, p.Remove(ended(t), removed), context.Canceled)
	strange := func(out int, n int) int { return out % n }
	rows := map[string]struct {
		parts []pipeline.Part
		says  []string
	}{
		"nothing":                        {nil, []string{"Rewire: names no wire"}},
		"nil":                            {[]pipeline.Part{nil}, []string{"part 1: is nil"}},
		"a stage":                        {[]pipeline.Part{b}, []string{"part 1: is a stage, and no wire"}},
		"an option and a group":          {[]pipeline.Part{quiet, pipeline.Group("g", 1, 1)}, []string{"part 1: is an option", `part 2: is Group "g"`}},
		"a flow that was not given":      {[]pipeline.Part{double("new").To(a)}, []string{"part 1: is a To or Route from before the start"}},
		"a nil port":                     {[]pipeline.Part{pipeline.Wire(nil, behaviour.Target[int](b))}, []string{"part 1: the port is nil"}},
		"a port that no stage has":       {[]pipeline.Part{pipeline.Wire(foreign, b)}, []string{`port "foreign": no stage of this pipeline declares it`}},
		"a nil target of a port":         {[]pipeline.Part{pipeline.Wire(out, behaviour.Target[int](nil))}, []string{`port "out": is wired to no stage`}},
		"a port as the target of a port": {[]pipeline.Part{pipeline.Wire(out, behaviour.Target[int](foreign))}, []string{`port "out": is wired to no stage`}},
		"a port twice":                   {[]pipeline.Part{pipeline.Wire(out, b), pipeline.Wire(out, a)}, []string{`port "out": is wired twice`}},
		"a flow twice":                   {[]pipeline.Part{flow.To(b), flow.To(a)}, []string{`stage "flow": is connected twice`}},
		"a nil target of a flow":         {[]pipeline.Part{flow.To(nil)}, []string{`stage "flow": To: target 1 is nil`}},
		"a port that leads nowhere":      {[]pipeline.Part{flow.To(foreign)}, []string{`stage "flow": To: target 1 is nil`}},
		"a Route without targets":        {[]pipeline.Part{flow.Route(strange)}, []string{`stage "flow": Route: there is no target`}},
		"a nil Pick":                     {[]pipeline.Part{flow.Route(nil, a, b)}, []string{`stage "flow": Route: the function is nil`}},
		"a stage that was not added":     {[]pipeline.Part{flow.To(toldBy(&said, "new"))}, []string{`stage "flow": leads to stage "new", which is not part of this pipeline; add it first`}},
		"a stage of another pipeline":    {[]pipeline.Part{pipeline.Wire(out, elsewhere)}, []string{`port "out": leads to stage "elsewhere", which is not part`}},
		"a flow of another pipeline":     {[]pipeline.Part{elsewhere.To(b)}, []string{`stage "elsewhere": is not part of this pipeline`}},
		"a stage that is drained":        {[]pipeline.Part{pipeline.Wire(out, drained)}, []string{`port "out": leads to a stage that is drained: reopen it first`}},
		"a stage that is being removed":  {[]pipeline.Part{flow.To(removed)}, []string{`stage "flow": leads to a stage that is being removed`}},
		"a loop without slack":           {[]pipeline.Part{flow.To(flow), pipeline.Wire(out, first)}, []string{`stage "flow": is a loop without slack`, `port "out": is a loop without slack`}},
		"the inside of a chain":          {[]pipeline.Part{head.To(a)}, []string{`stage "head": To: a Chain connects it to "tail", which must stay its first target`}},
		"a Route inside a chain":         {[]pipeline.Part{head.Route(strange, tail)}, []string{`stage "head": Route: a Chain connects it to "tail"`}},
		"one of two that is wrong":       {[]pipeline.Part{flow.To(b), pipeline.Subgraph(nil)}, []string{"part 2, part 1: is nil"}},
	}
	drawing := p.Mermaid()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			err := p.Rewire(soon(t), row.parts...)
			for _, says := range row.says {
				require.ErrorContains(t, err, says)
			}
			var fault *pipeline.PartError
			var own *stage.OptionError
			require.True(t, errors.As(err, &fault) || errors.As(err, &own))
			require.Equal(t, drawing, p.Mermaid())
			require.Equal(t, "a", callTold(t, first, &said))
			require.Equal(t, "a", callTold(t, flow.Stage, &said))
		})
	}
	require.NoError(t, p.Rewire(soon(t), head.To(tail, b)), "the chain stays as it is")
	n, err := head.Call(soon(t), 1)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	removed.open()
	require.NoError(t, p.Reopen(drained))
}

func TestAStageThatIsDrainedIsNotRewired(t *testing.T) {
	var said story
	flow, a, b := double("flow"), toldBy(&said, "a"), toldBy(&said, "b")
	p := run(t, flow.To(a), b)
	require.NoError(t, p.Drain(soon(t), flow))
	require.ErrorContains(t, p.Rewire(soon(t), flow.To(b)), `stage "flow": is drained: reopen it first`)
	require.NoError(t, p.Reopen(flow))
	require.NoError(t, p.Drain(soon(t), a))
	require.ErrorContains(t, p.Rewire(soon(t), flow.To(b)), `stage "flow": leads away from a stage that is drained: reopen it first`)
	require.NoError(t, p.Reopen(a))
	require.NoError(t, p.Drain(soon(t)))
	require.ErrorIs(t, p.Rewire(soon(t), flow.To(b)), stage.ErrDraining)
	require.NoError(t, p.Reopen())
	require.NoError(t, p.Rewire(soon(t), flow.To(b)))
}

func TestAPipelineIsRewiredOnlyWhileItRuns(t *testing.T) {
	var said story
	out := behaviour.NewPort[int]("out")
	first, a, b := stage.Func("first", echo[int], stage.Out(out)), toldBy(&said, "a"), toldBy(&said, "b")
	p := made(t, first, a, b, pipeline.Wire(out, a))
	require.ErrorIs(t, p.Rewire(t.Context(), pipeline.Wire(out, b)), pipeline.ErrNotRunning)
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, p.Rewire(t.Context(), pipeline.Wire(out, b)))
	require.NoError(t, p.Stop(soon(t)))
	require.ErrorIs(t, p.Rewire(t.Context(), pipeline.Wire(out, a)), pipeline.ErrNotRunning)
	require.PanicsWithValue(t, "pipeline: Rewire: nil context", func() { _ = p.Rewire(nil) }) //nolint:staticcheck // on purpose
}

func TestOtherFunctionsRefuseTheConnectionOfAFlowThatRuns(t *testing.T) {
	var said story
	flow, a := double("flow"), toldBy(&said, "a")
	p := run(t, flow)
	const says = `stage "flow": belongs to a pipeline already: connect it with To or Route before pipeline.New, or with Pipeline.Rewire`
	require.ErrorContains(t, p.Add(soon(t), a, flow.To(a)), says)
	_, err := pipeline.New("other", a, flow.To(a))
	require.ErrorContains(t, err, says)
	_, err = pipeline.New("other", stage.Chain(flow, a))
	require.ErrorContains(t, err, `stage "flow", Chain: the stage belongs to a pipeline already`)
	require.ErrorContains(t, p.Drain(soon(t), flow.To(a)), "is not a stage")
}

func TestAStopEndsARewireThatWaits(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var said story
		flow := stage.Map("flow", func(ctx context.Context, n int) (int, error) { <-ctx.Done(); return n, nil })
		a, b := toldBy(&said, "a"), toldBy(&said, "b")
		p := bubble(t, flow.To(a), b)
		submit(t, flow, 1)
		rewired := make(chan error, 1)
		go func() { rewired <- p.Rewire(context.WithoutCancel(t.Context()), flow.To(b)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, p.Stop(ctx))
		if err := <-rewired; err != nil { // it may see first that the handler has returned
			require.ErrorIs(t, err, pipeline.ErrStopped)
		}
	})
}

func TestAPolicyCannotRewireItsPipeline(t *testing.T) {
	var said story
	var p *pipeline.Pipeline
	flow, a := double("flow"), toldBy(&said, "a")
	refused := make(chan error, 1)
	ready := make(chan struct{})
	p = run(t, flow, a)
	close(ready)
	require.NoError(t, p.SetPolicy(once(func(*controller.Snapshot, *controller.Decisions) {
		<-ready
		refused <- p.Rewire(context.Background(), flow.To(a))
	})))
	require.ErrorIs(t, <-refused, pipeline.ErrFromPolicy)
}
