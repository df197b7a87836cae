package pipeline_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// rows is a batch handler that records the sizes of its batches and their times.
type rows struct {
	begin time.Time
	sizes []int
	at    []time.Duration
}

func (r *rows) HandleCommand(context.Context, int) behaviour.Outcome { panic("it is a batcher") }

func (r *rows) HandleBatch(_ context.Context, cmds []int) []behaviour.Outcome {
	r.sizes = append(r.sizes, len(cmds))
	r.at = append(r.at, time.Since(r.begin).Truncate(time.Microsecond))
	out := make([]behaviour.Outcome, len(cmds))
	for i := range cmds {
		out[i] = behaviour.OK(nil)
	}
	return out
}

func TestABatchLingersUntilItIsFullOrItsFirstCommandHasWaitedLongEnough(t *testing.T) {
	for _, way := range []pipeline.Part{pipeline.Subgraph(), pipeline.Control(ways(2)["fifo"]), pipeline.Control(ways(2)["exhaustive"])} {
		bubbled(t, func(t *testing.T) {
			r := &rows{begin: time.Now()}
			s := stage.New("insert", r, stage.Batch(4), stage.Linger(10*time.Millisecond), stage.Workers(1, 2))
			p := bubble(t, s, way)
			submit := func(n int) {
				for range n {
					require.NoError(t, s.Submit(t.Context(), 1))
				}
			}
			submit(3) // at 0: not full
			time.Sleep(20 * time.Millisecond)
			submit(4) // at 20: full at once
			time.Sleep(5 * time.Millisecond)
			submit(1) // at 25: waits for more commands
			time.Sleep(5 * time.Millisecond)
			submit(4) // at 30: full, and one more that lingers from now on
			time.Sleep(20 * time.Millisecond)
			submit(2) // at 50
			require.NoError(t, p.Drain(t.Context()))
			require.Equal(t, []int{3, 4, 4, 1, 2}, r.sizes)
			ms := time.Millisecond
			require.Equal(t, []time.Duration{10 * ms, 20 * ms, 30 * ms, 40 * ms}, r.at[:4])
			require.LessOrEqual(t, r.at[4], 60*ms, "a drain does not wait for longer than the linger time")
			require.NoError(t, p.Stop(t.Context()))
		})
	}
}

// A timer keeps everything that its function can reach until it fires.
func TestAStoppedPipelineIsNotHeldByATimer(t *testing.T) {
	type heavy struct{ rows }
	for name, hard := range map[string]bool{"soft": false, "hard": true} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				held := func() weak.Pointer[heavy] {
					h := &heavy{rows{begin: time.Now()}}
					s := stage.New("insert", h, stage.Batch(2), stage.Linger(time.Hour), stage.Workers(1, 1))
					p := bubble(t, s)
					require.NoError(t, s.Submit(t.Context(), 1))
					synctest.Wait() // the batch lingers
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if hard {
						cancel()
						_ = p.Stop(ctx) // the drain may finish in time all the same, because it does not linger
						return weak.Make(h)
					}
					require.NoError(t, s.Submit(t.Context(), 1))
					require.NoError(t, p.Stop(ctx))
					return weak.Make(h)
				}()
				time.Sleep(time.Minute) // for goroutines that end by themselves
				for i := 0; i < 100 && held.Value() != nil; i++ {
					runtime.GC()
				}
				require.Nil(t, held.Value())
			})
		})
	}
}
