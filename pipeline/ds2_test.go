package pipeline_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// onlooker is a policy that keeps the last inflows it was shown, as "from>to:commands".
type onlooker struct{ last *inflows }

type inflows struct {
	sync.Mutex
	all map[string]uint64
}

func (onlooker) Name() string                 { return "onlooker" }
func (onlooker) Check() error                 { return nil }
func (onlooker) Claims() []controller.Knob    { return nil }
func (o onlooker) New() controller.Controller { return o }
func (o onlooker) Control(_ controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	d.Every(time.Millisecond)
	o.last.Lock()
	defer o.last.Unlock()
	o.last.all = map[string]uint64{}
	for _, st := range s.Stages {
		for i, from := range st.Before {
			o.last.all[s.Stages[from].Name+">"+st.Name] += st.Inflows[i]
		}
	}
}

// Of 100 commands the first stage emits three each to the second, and one has 1,000, which leave while its handler
// runs. The second forwards odd numbers to itself, plus one, and even ones to the third.
func TestAPolicySeesHowManyCommandsCameAlongEachEdge(t *testing.T) {
	const many = 1000
	for name, opts := range map[string][]stage.Option{
		"workers":         {stage.Workers(3, 3)},
		"ordered":         {stage.Workers(3, 3), stage.Ordered()},
		"small queues":    {stage.Workers(3, 3), stage.Capacity(2)},
		"one at a time":   {stage.Workers(1, 1), stage.Batch(1)},
		"a shared pool":   nil,
		"other instances": {stage.Instances(1), stage.Workers(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				again, out := behaviour.NewPort[int]("again"), behaviour.NewPort[int]("out")
				third := stage.Sink("third", func(context.Context, int) error { return nil }, opts...)
				second := stage.Func("second", func(_ context.Context, n int) behaviour.Outcome {
					if n%2 == 1 {
						return behaviour.Forward(again, n+1)
					}
					return behaviour.Forward(out, n)
				}, append([]stage.Option{stage.Out(again, out)}, opts...)...)
				first := stage.Func("first", func(ctx context.Context, n int) behaviour.Outcome {
					emits := 3
					if n == 0 {
						emits = many
					}
					for i := range emits {
						if err := behaviour.Emit(ctx, second, i); err != nil {
							return behaviour.Error(err)
						}
					}
					return behaviour.OK(nil)
				}, append([]stage.Option{stage.Out(second)}, opts...)...)
				parts := []pipeline.Part{first, second, third}
				if name == "a shared pool" {
					parts = []pipeline.Part{pipeline.Group("g", 2, 2, first, second, third)}
				}
				seen := onlooker{new(inflows)}
				p := startAlone(t, append(parts, pipeline.Wire(again, second), pipeline.Wire(out, third), pipeline.Control(seen))...)
				for n := range 100 {
					require.NoError(t, first.Submit(t.Context(), n))
				}
				time.Sleep(time.Second)
				want := map[string]uint64{"first>second": 99*3 + many, "second>second": 99 + many/2, "second>third": 99*3 + many}
				seen.last.Lock()
				got := seen.last.all
				seen.last.Unlock()
				require.Equal(t, want, got)
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

// A line of three whose second stage gets two commands for each, 50 a second for 5 minutes: DS2 finds the workers in
// three steps, and each order is priced, packed in two parcels, and shipped once.
func TestDS2FindsTheWorkersOfARealPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shipped [2]atomic.Int64
		var sum atomic.Int64
		ship := stage.Sink("ship", func(_ context.Context, n int) error {
			time.Sleep(5 * time.Millisecond)
			shipped[n%2].Add(1)
			sum.Add(int64(n))
			return nil
		}, stage.Workers(1, 64))
		pack := stage.Func("pack", func(_ context.Context, n int) behaviour.Outcome {
			time.Sleep(75 * time.Millisecond)
			return behaviour.Forward(ship, n)
		}, stage.Workers(1, 64), stage.Out(ship), stage.Capacity(10_000))
		price := stage.Func("price", func(ctx context.Context, n int) behaviour.Outcome {
			time.Sleep(35 * time.Millisecond)
			for i := range 2 {
				if err := behaviour.Emit(ctx, pack, 2*n+i); err != nil {
					return behaviour.Error(err)
				}
			}
			return behaviour.OK(nil)
		}, stage.Workers(1, 64), stage.Out(pack), stage.Capacity(10_000))
		p := startAlone(t, price, pack, ship, pipeline.Control(policy.DS2{}))
		const orders = 50 * 300
		for n := range orders {
			require.NoError(t, price.Submit(t.Context(), n))
			time.Sleep(20 * time.Millisecond)
		}
		var all []string
		for _, c := range p.Journal() {
			if c.Before != c.After {
				all = append(all, fmt.Sprintf("%v %s:%v", c.At.Round(time.Second), c.StageName, c.After))
				require.LessOrEqual(t, c.At, 61*time.Second, "%v", c)
			}
		}
		live := map[string]int{}
		for _, st := range p.Snapshot().Stages {
			live[st.Name] = st.Workers.Live
		}
		require.Equal(t, map[string]int{"price": 3, "pack": 11, "ship": 1}, live, "%v", all) // 1.75, 7.5 and 0.5 busy workers, at 70 %
		require.NoError(t, p.Drain(t.Context()))
		require.EqualValues(t, orders, shipped[0].Load())
		require.EqualValues(t, orders, shipped[1].Load())
		require.EqualValues(t, 2*orders*(2*orders-1)/2, sum.Load())
		require.NoError(t, p.Stop(t.Context()))
	})
}
