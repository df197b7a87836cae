package worker

import "runtime/pprof"

// Labelled is the context of a stage's handlers, by which a CPU profile tells stages apart: samples
// taken in a handler, and in goroutines that it starts, have the labels "pipeline" and
// "stage".
func Labelled(ctx Context, pipeline, stage string) Context {
	return pprof.WithLabels(ctx, pprof.Labels("pipeline", pipeline, "stage", stage))
}

// label has the goroutine be profiled as one of the present stage. The worker's
// mailbox may run on another goroutine each time, which was started by who knows whom.
func (w *Worker) label() {
	if w.stage != nil {
		pprof.SetGoroutineLabels(w.stage.Context)
	}
}
