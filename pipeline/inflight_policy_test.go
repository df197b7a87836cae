package pipeline_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// A shop bears 400 orders a second and gets 200, then ten times what it bears for ten seconds, then 200 again. The laws learn of it at their
// ticks; between two ticks the commands in flight are bounded. Each order is refused at once or packed, once, and in time.
func TestInFlightHelpsLawsThatLearnAtTheirTicks(t *testing.T) {
	const tick, within = 25 * time.Millisecond, 500 * time.Millisecond
	for name, law := range map[string]controller.Policy{
		"rt90": policy.RT90{Target: 350 * time.Millisecond, Interval: tick},
		"shed": policy.Shed{Target: 100 * time.Millisecond, Interval: tick, After: tick},
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var mu sync.Mutex
				packed, late := 0, 0
				pack := stage.Sink("pack", func(_ context.Context, at time.Time) error {
					time.Sleep(20 * time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					packed++
					if time.Since(at) > within {
						late++
					}
					return nil
				}, stage.Workers(8, 8))
				check := stage.Func("check", func(_ context.Context, at time.Time) behaviour.Outcome {
					time.Sleep(20 * time.Millisecond)
					return behaviour.Forward(pack, at)
				}, stage.Workers(8, 8), stage.Out(pack), stage.Overflow(overflow.Reject))
				p := bubble(t, check, pack, pipeline.Control(law, policy.InFlight{Within: 300 * time.Millisecond, Interval: tick}))
				admitted := 0
				send := func(rate int, length time.Duration) (done int) {
					mu.Lock()
					before := packed
					mu.Unlock()
					for range rate * int(length/time.Millisecond) / 1000 {
						if err := check.Submit(t.Context(), time.Now()); err == nil {
							admitted++
						} else {
							_, is := stage.Overloaded(err)
							require.True(t, is, err)
						}
						time.Sleep(time.Second / time.Duration(rate))
					}
					mu.Lock()
					defer mu.Unlock()
					return packed - before
				}
				send(200, 5*time.Second)
				require.Greater(t, send(4000, 10*time.Second), 95*400*10/100)
				require.GreaterOrEqual(t, send(200, 2*time.Second), 380, "the sale is over")
				require.NoError(t, p.Drain(t.Context()))
				require.Equal(t, admitted, packed)
				require.Less(t, late, packed/100)
				require.Contains(t, noted(t, p, "limit").Why, "within 300ms")
				end(t, p)
			})
		})
	}
}
