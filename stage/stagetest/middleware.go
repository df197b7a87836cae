package stagetest

import (
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/link"
)

// Middleware puts the injector before the handlers of a stage, of whatever kind
// it is, or of all stages of a pipeline: it is a stage.MiddlewareFunc. For each
// command either a fault happens or the handler is called.
//
//	faults := stagetest.Inject(t, 42, stagetest.Faults{Panic: 0.02, Error: 0.05})
//	parse := stage.Map("parse", parseLine, stage.Middleware(faults.Middleware))
//	p, err := pipeline.New("log", parse.To(save), pipeline.Middleware(faults.Middleware))
//
// A batch of a behaviour.Batcher has one fault as a whole, and the Key of the
// [Faults] is called with the slice of its commands; [Wrap] injects a fault for
// each command instead. A handler that may suspend is suspended while a fault
// delays or hangs it.
func (in *Injector) Middleware(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
	where := ctx //nolint:contextcheck // the suspender is what ctx was made of
	if c, ok := ctx.Value(link.SuspenderKey{}).(behaviour.Suspender); ok {
		where = c // a middleware outside of this one has derived its context from it
	}
	if err := in.inject(where, cmd); err != nil {
		return behaviour.Error(err)
	}
	return next(ctx, cmd)
}
