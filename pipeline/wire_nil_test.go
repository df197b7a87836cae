package pipeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestAWireToANilStageOrFlowIsAFault(t *testing.T) {
	var noFlow *stage.Flow[int, int]
	var noStage *stage.Stage[int]
	for name, to := range map[string]behaviour.Target[int]{"a flow": noFlow, "a stage": noStage, "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New("p", pipeline.Wire(behaviour.NewPort[int]("out"), to))
			require.ErrorContains(t, err, "nil")
		})
	}
}

func TestANilStageOrFlowCannotBePaused(t *testing.T) {
	var noFlow *stage.Flow[int, int]
	var noStage *stage.Stage[int]
	p := start(t, stage.Sink("s", func(context.Context, int) error { return nil }))
	require.Error(t, p.Pause(noFlow))
	require.Error(t, p.Pause(noStage))
	require.NoError(t, p.Stop(soon(t)))
}
