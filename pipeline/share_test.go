package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// shared is a policy that makes all stages share the workers of one pool.
type shared struct {
	mode    controller.Dispatch
	workers int
	plan    *controller.VisitPlan
}

func (s shared) Name() string               { return "shared " + s.mode.String() }
func (shared) Check() error                 { return nil }
func (s shared) New() controller.Controller { return s }

func (s shared) Control(ev controller.Event, v *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind != controller.EventStart && ev.Kind != controller.EventTopology {
		return
	}
	controller.KnobWorkers.SetPool(d, "all", s.workers, "test")
	controller.KnobDispatch.SetPool(d, "all", s.mode, "test")
	controller.KnobVisit.SetPool(d, "all", s.plan, "test")
	for _, st := range v.Stages {
		controller.KnobPool.Set(d, st.ID, "all", "test")
		controller.KnobPriority.Set(d, st.ID, st.Rank, "test")
	}
}

// ways are the ways in which stages can share workers.
func ways(workers int) map[string]controller.Policy {
	return map[string]controller.Policy{
		"fifo":         shared{controller.SharedFIFO, workers, nil},
		"fifo by one":  shared{controller.SharedFIFO, workers, &controller.VisitPlan{Gating: controller.Bounded, Bound: 1}},
		"priority":     shared{controller.SharedPriority, workers, &controller.VisitPlan{Gating: controller.Bounded, Bound: 1}},
		"exhaustive":   shared{controller.Polled, workers, nil},
		"gated":        shared{controller.Polled, workers, &controller.VisitPlan{Gating: controller.Gated}},
		"bounded":      shared{controller.Polled, workers, &controller.VisitPlan{Gating: controller.Bounded, Bound: 3}},
		"time-bounded": shared{controller.Polled, workers, &controller.VisitPlan{Gating: controller.TimeBounded, Quantum: 50 * time.Microsecond}},
		"last first": shared{controller.Polled, workers, &controller.VisitPlan{
			Order: []controller.StageID{3, 2, 1, 0}, Gating: controller.Bounded, Bound: 1, Restart: true,
		}},
		"wave": shared{controller.Polled, workers, &controller.VisitPlan{Order: []controller.StageID{0, 1, 2, 3, 2, 1}}},
	}
}

func forEachWay(t *testing.T, workers int, check func(t *testing.T, law controller.Policy)) {
	t.Helper()
	for name, law := range ways(workers) {
		t.Run(fmt.Sprintf("%s with %d", name, workers), func(t *testing.T) { check(t, law) })
	}
}

// line makes a line of stages that forward a number and, at the end, answer it.
func line(n int, handle func(stage, cmd int) error, opts ...stage.Option) (entry *stage.Stage[int], parts []pipeline.Part) {
	var next *stage.Stage[int]
	for i := n - 1; i >= 0; i-- {
		next = oneOf(i, next, handle, opts)
		parts = append([]pipeline.Part{next}, parts...)
	}
	return next, parts
}

func oneOf(i int, to *stage.Stage[int], handle func(stage, cmd int) error, opts []stage.Option) *stage.Stage[int] {
	return stage.Func(fmt.Sprintf("s%d", i), func(_ context.Context, cmd int) behaviour.Outcome {
		if handle != nil {
			if err := handle(i, cmd); err != nil {
				return behaviour.Error(err)
			}
		}
		if to == nil {
			return behaviour.OK(cmd)
		}
		return behaviour.Forward(to, cmd)
	}, opts...)
}

func TestStagesThatShareWorkersLoseNothing(t *testing.T) {
	commands := fewer(4000)
	for _, workers := range []int{1, 3} {
		forEachWay(t, workers, func(t *testing.T, law controller.Policy) {
			entry, parts := line(4, func(_, cmd int) error {
				switch rand.IntN(400) {
				case 0:
					panic("on purpose")
				case 1:
					runtime.Goexit()
				case 2:
					return errNo
				}
				_ = cmd
				return nil
			}, stage.Capacity(16))
			p := run(t, append(parts, pipeline.Control(law))...)
			for i := range commands {
				require.NoError(t, entry.Submit(soon(t), i))
			}
			require.NoError(t, p.Drain(soon(t)))
			s := p.Snapshot()
			require.EqualValues(t, commands, s.Accepted)
			require.Len(t, s.Pools, 1)
			require.Equal(t, []string{"s0", "s1", "s2", "s3"}, s.Pools[0].Stages)
		})
	}
}

func TestOneSharedWorkerHandlesInOrder(t *testing.T) {
	forEachWay(t, 1, func(t *testing.T, law controller.Policy) {
		var last [4]int
		var doubled, swapped atomic.Int64
		entry, parts := line(4, func(stage, cmd int) error {
			switch {
			case cmd == last[stage]:
				doubled.Add(1)
			case cmd < last[stage]:
				swapped.Add(1)
			}
			last[stage] = cmd
			return nil
		}, stage.Capacity(7))
		p := run(t, append(parts, pipeline.Control(law))...)
		for i := range 2000 {
			require.NoError(t, entry.Submit(soon(t), i+1))
		}
		require.NoError(t, p.Drain(soon(t)))
		require.Zero(t, doubled.Load())
		require.Zero(t, swapped.Load())
	})
}

func TestASharedStageHoldsNoMoreThanItsCapacityAndTheCommandsInHand(t *testing.T) {
	forEachWay(t, 2, func(t *testing.T, law controller.Policy) {
		entry, parts := line(4, nil, stage.Capacity(5), stage.Batch(3))
		p := run(t, append(parts, pipeline.Control(law))...)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range fewer(3000) {
				_ = entry.Submit(context.Background(), i)
			}
		}()
		until(done, func() {
			for _, st := range p.Snapshot().Stages {
				require.LessOrEqual(t, st.Queue.Queued, 5+2*3, st.Name)
			}
		})
		require.NoError(t, p.Drain(soon(t)))
	})
}

func TestInstancesBoundHowManySharedWorkersAreAtAStage(t *testing.T) {
	forEachWay(t, 4, func(t *testing.T, law controller.Policy) {
		var here, most, made atomic.Int64
		one := stage.Each("s0", func() behaviour.Behaviour[int] {
			made.Add(1)
			return fn(func(context.Context, int) behaviour.Outcome {
				most.Store(max(most.Load(), here.Add(1)))
				runtime.Gosched()
				here.Add(-1)
				return behaviour.OK(nil)
			})
		}, stage.Instances(1), stage.Workers(1, 1))
		p := run(t, one, pipeline.Control(law))
		for i := range 2000 {
			require.NoError(t, one.Submit(soon(t), i))
		}
		require.NoError(t, p.Drain(soon(t)))
		require.EqualValues(t, 1, most.Load())
		require.EqualValues(t, 1, made.Load(), "the instance is the stage's, not the worker's")
	})
}

type lap struct{ hops int }

// circuit is a line of three small stages; a quarter of the commands goes back to the first, up to ten times.
func circuit() (first *stage.Stage[*lap], parts []pipeline.Part) {
	last := stage.Func("s2", func(_ context.Context, l *lap) behaviour.Outcome {
		if l.hops++; l.hops <= 10 && rand.IntN(4) == 0 {
			return behaviour.Forward(first, l)
		}
		return behaviour.OK(nil)
	}, stage.Capacity(4))
	middle := stage.Func("s1", func(_ context.Context, l *lap) behaviour.Outcome {
		return behaviour.Forward(last, l)
	}, stage.Capacity(4))
	first = stage.Func("s0", func(_ context.Context, l *lap) behaviour.Outcome {
		return behaviour.Forward(middle, l)
	}, stage.Capacity(4))
	return first, []pipeline.Part{first, middle, last}
}

func TestALoopOfStagesThatShareWorkersCannotBlockItself(t *testing.T) {
	for _, workers := range []int{1, 4} {
		forEachWay(t, workers, func(t *testing.T, law controller.Policy) {
			first, parts := circuit()
			p := run(t, append(parts, pipeline.Control(law))...)
			for range fewer(4000) {
				require.NoError(t, first.Submit(soon(t), &lap{}))
			}
			require.NoError(t, p.Drain(soon(t)))
		})
	}
}

// All named policies run at the same time, at full queues.
func TestEveryPolicyKeepsALoopMoving(t *testing.T) {
	end := time.Now().Add(lasting(time.Second, time.Minute))
	for _, name := range policy.Names() {
		if name == "codel" || name == "rt90" {
			continue // they drop or refuse commands in an overload
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law, err := policy.ByName(name)
			require.NoError(t, err)
			first, parts := circuit()
			p := run(t, append(parts, pipeline.Control(law))...)
			sent := 0
			for ; time.Now().Before(end) || sent < 1000; sent++ {
				ctx, cancel := context.WithTimeout(t.Context(), enough)
				if err := first.Submit(ctx, &lap{}); err != nil {
					require.NoError(t, err, "after %d commands: %s", sent, p.Snapshot().Law())
				}
				cancel()
			}
			require.NoError(t, p.Drain(soon(t)))
			require.EqualValues(t, sent, p.Snapshot().Replied)
		})
	}
}
