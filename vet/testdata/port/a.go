package port

import (
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

var (
	lost  = behaviour.NewPort[int]("lost") // want `the port lost is never wired: give New pipeline.Wire\(lost, next\)`
	wired = behaviour.NewPort[int]("wired")
	Given = behaviour.NewPort[int]("given") // other packages may wire it
	idle  = behaviour.NewPort[int]("idle")  // nothing is sent to it
)

func build() (*pipeline.Pipeline, error) {
	local := behaviour.NewPort[int]("local") // want `the port local is never wired`
	passed := behaviour.NewPort[int]("passed")
	end := stage.Sink("end", func(context.Context, int) error { return nil })
	begin := stage.Func("begin", func(ctx context.Context, n int) behaviour.Outcome {
		if err := behaviour.Emit(ctx, local, n); err != nil {
			return behaviour.Error(err)
		}
		if err := lost.Submit(ctx, n); err != nil || !lost.Wired() {
			return behaviour.Error(err)
		}
		if err := behaviour.Emit(ctx, passed, n); err != nil {
			return behaviour.Error(err)
		}
		if n > 0 {
			return behaviour.Forward(Given, n)
		}
		return behaviour.Forward(wired, n)
	})
	wireAll(passed)
	return pipeline.New("p", begin, end, pipeline.Wire(wired, end))
}

func wireAll(...*behaviour.Port[int]) {}
