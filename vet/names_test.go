package vet_test

import (
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// The analyzers know functions by their names. A name that changes breaks this file, and then package vet must be changed, too.
var _ = []any{
	stage.Func[int], stage.Sink[int], stage.Map[int, int], stage.FlatMap[int, int], stage.Filter[int], stage.FlowOf[int, int], stage.Coroutine[int], stage.New[int],
	(*stage.Stage[int]).Submit, (*stage.Stage[int]).SubmitAll, (*stage.Stage[int]).Ask, stage.Call[int, int], stage.Workers,
	behaviour.NewPort[int], (*behaviour.Port[int]).Submit, (*behaviour.Port[int]).Name, (*behaviour.Port[int]).Wired,
	behaviour.Emit[int], behaviour.Forward[int],
	pipeline.Group, pipeline.Wire[int], (*letters.Store).Retry, (*letters.Store).RetryAll,
	context.WithoutCancel,
}
