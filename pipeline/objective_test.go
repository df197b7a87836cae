package pipeline_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A shop checks orders and packs them, 400 a second. A sale brings ten times as many, for two seconds and then for ten. Each order is
// refused at once or packed, once, and 99 of 100 that are packed are packed in time; the shop packs all the time what it can.
func TestAnObjectiveIsHeldThroughASale(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		type order struct {
			n  int
			at time.Time
		}
		const within = 400 * time.Millisecond
		var mu sync.Mutex
		var packed []int
		late := 0
		pack := stage.Sink("pack", func(_ context.Context, o order) error {
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			packed = append(packed, o.n)
			if time.Since(o.at) > within {
				late++
			}
			return nil
		}, stage.Workers(8, 8))
		check := stage.Func("check", func(_ context.Context, o order) behaviour.Outcome {
			time.Sleep(20 * time.Millisecond)
			return behaviour.Forward(pack, o)
		}, stage.Workers(8, 8), stage.Out(pack))
		p := bubble(t, check, pack, pipeline.Control(policy.Objective{Within: within}))
		n := 0
		var admitted []int
		send := func(rate int, length time.Duration) (done int) {
			mu.Lock()
			before := len(packed)
			mu.Unlock()
			for range rate * int(length/time.Millisecond) / 1000 {
				if err := check.Submit(t.Context(), order{n, time.Now()}); err == nil {
					admitted = append(admitted, n)
				} else {
					overload, is := stage.Overloaded(err)
					require.True(t, is, err)
					require.Less(t, overload.RetryAfter, within)
				}
				n++
				time.Sleep(time.Second / time.Duration(rate))
			}
			mu.Lock()
			defer mu.Unlock()
			return len(packed) - before
		}
		send(200, 5*time.Second)
		send(4000, 2*time.Second)
		send(200, 2*time.Second)
		require.Greater(t, send(4000, 10*time.Second), 95*400*10/100)
		require.GreaterOrEqual(t, send(200, 2*time.Second), 380, "the sale is over")
		require.NoError(t, p.Drain(t.Context()))
		slices.Sort(packed)
		require.Equal(t, admitted, packed)
		require.Less(t, late, len(packed)/100)
		require.Contains(t, noted(t, p, "rate").Why, "99% within 400ms: ")
		end(t, p)
	})
}

func TestAnObjectiveForAStageThatIsMissingIsRefused(t *testing.T) {
	s := stage.Sink("pack", func(context.Context, int) error { return nil })
	_, err := pipeline.New("shop", s, pipeline.Control(policy.Objective{Stage: "park"}))
	require.EqualError(t, err, `pipeline "shop": Control: policy "objective" is about stage "park", which is not part of the pipeline`)
	p := run(t, s, pipeline.Control(policy.Objective{Stage: "pack"}))
	require.ErrorContains(t, p.SetPolicy(policy.Objective{Stage: "park"}), `is about stage "park"`)
}
