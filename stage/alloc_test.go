package stage_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A command passed by pointer costs no allocation, at the door or on the way.
// Twenty for each run of a thousand commands over three hops are let pass: a queue
// that grows, a goroutine that starts.
func TestAllocsPerRunOfAThousandCommandsOverThreeHopsAreNone(t *testing.T) {
	const n = 1000
	ended := make(chan struct{})
	left := 0
	c := stage.Func("c", func(context.Context, *parcel) behaviour.Outcome {
		if left--; left == 0 {
			ended <- struct{}{}
		}
		return behaviour.OK(nil)
	}, stage.Workers(1, 1))
	b := stage.Func("b", func(_ context.Context, p *parcel) behaviour.Outcome { return behaviour.Forward(c, p) }, stage.Workers(1, 1))
	a := stage.Func("a", func(_ context.Context, p *parcel) behaviour.Outcome { return behaviour.Forward(b, p) }, stage.Workers(1, 1))
	p, err := pipeline.New("alloc", a, b, c, pipeline.Control(policy.Fixed{}))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	cmd, ctx := &parcel{}, t.Context()
	pass := func() {
		left = n
		for range n {
			if err := a.Submit(ctx, cmd); err != nil {
				t.Error(err)
			}
		}
		<-ended
	}
	pass() // the queues grow, the workers make their batches
	require.LessOrEqual(t, testing.AllocsPerRun(20, pass), float64(n)/50)
	require.NoError(t, p.Stop(context.Background()))
}
