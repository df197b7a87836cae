package pipeline_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A profile shows which stage uses the CPU: the goroutine that handles a command has the stage's labels, and so has one that the
// handler starts, whichever goroutine woke the worker.
func TestAProfileHasTheLabelsOfTheStage(t *testing.T) {
	for name, way := range map[string]func(a, b pipeline.Part) pipeline.Part{
		"own workers":   func(a, b pipeline.Part) pipeline.Part { return pipeline.Subgraph(a, b) },
		"shared worker": func(a, b pipeline.Part) pipeline.Part { return pipeline.Group("g", 1, 1, a, b) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := pprof.WithLabels(t.Context(), pprof.Labels("stage", "a caller's"))
			pprof.SetGoroutineLabels(ctx)
			seen := make(chan string, 2)
			look := func(context.Context, int) behaviour.Outcome {
				var own, child bytes.Buffer
				require.NoError(t, pprof.Lookup("goroutine").WriteTo(&own, 1))
				done := make(chan struct{})
				go func() {
					defer close(done)
					assert.NoError(t, pprof.Lookup("goroutine").WriteTo(&child, 1))
				}()
				<-done
				seen <- own.String() + child.String()
				return behaviour.OK(nil)
			}
			b := stage.Func("b", look, stage.Workers(1, 1))
			a := stage.Func("a", func(ctx context.Context, cmd int) behaviour.Outcome {
				look(ctx, cmd)
				return behaviour.Forward(b, cmd)
			}, stage.Workers(1, 1))
			p := run(t, way(a, b))
			require.NoError(t, a.Submit(ctx, 1))
			for _, at := range []string{"a", "b"} {
				profile := <-seen
				require.Contains(t, profile, `"stage":"`+at+`"`)
			}
			require.NoError(t, p.Stop(soon(t)))
		})
	}
}
