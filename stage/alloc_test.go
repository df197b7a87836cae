package stage_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A command passed by pointer costs no allocation, neither when it is submitted nor on its way. The test allows twenty for each
// run of a thousand commands over three hops: a queue may grow, a goroutine may start.
func TestAllocsPerRunOfAThousandCommandsOverThreeHopsAreNone(t *testing.T) {
	if raced {
		t.Skip("it takes long with the race detector, and counts the same")
	}
	const n = 1000
	cmds := make([]*parcel, n)
	for i := range cmds {
		cmds[i] = new(parcel)
	}
	oneByOne := func(first *stage.Stage[*parcel]) error {
		for _, cmd := range cmds {
			if err := first.Submit(t.Context(), cmd); err != nil {
				return err
			}
		}
		return nil
	}
	together := func(first *stage.Stage[*parcel]) error {
		_, err := first.SubmitAll(t.Context(), cmds...)
		return err
	}
	tests := map[string]struct {
		workers int
		grouped bool
		submit  func(first *stage.Stage[*parcel]) error
	}{
		"one worker each":                       {1, false, oneByOne},
		"one worker each, submitted together":   {1, false, together},
		"four workers each":                     {4, false, oneByOne},
		"four workers each, submitted together": {4, false, together},
		"a group of one worker":                 {1, true, oneByOne},
		"a group of four, submitted together":   {4, true, together},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			var left atomic.Int32
			workers := stage.Workers(test.workers, test.workers)
			c := stage.Func("c", func(context.Context, *parcel) behaviour.Outcome {
				if left.Add(-1) == 0 {
					ended <- struct{}{}
				}
				return behaviour.OK(nil)
			}, workers)
			b := stage.Func("b", func(_ context.Context, p *parcel) behaviour.Outcome { return behaviour.Forward(c, p) }, workers)
			a := stage.Func("a", func(_ context.Context, p *parcel) behaviour.Outcome { return behaviour.Forward(b, p) }, workers)
			parts := []pipeline.Part{a, b, c, pipeline.Control(policy.Fixed{})}
			if test.grouped {
				parts = append(parts, pipeline.Group("abc", test.workers, test.workers, a, b, c))
			}
			p, err := pipeline.New("alloc", parts...)
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			pass := func() {
				left.Store(n)
				if err := test.submit(a); err != nil {
					t.Error(err)
				}
				<-ended
			}
			for range 5 { // the queues grow, the workers make their batches
				pass()
			}
			require.LessOrEqual(t, testing.AllocsPerRun(20, pass), float64(n)/50)
			require.NoError(t, p.Stop(context.Background()))
		})
	}
}
