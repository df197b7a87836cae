package pipeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestStartedIsClosedWhenThePipelineHasStarted(t *testing.T) {
	s := stage.New("s", fn(echo[int]))
	p := made(t, s)
	select {
	case <-p.Started():
		require.Fail(t, "it has not started")
	default:
	}
	fed := make(chan error, 1)
	go func() {
		select {
		case <-p.Started():
			fed <- s.Submit(context.Background(), 1)
		case <-p.Done():
			fed <- pipeline.ErrStopped
		}
	}()
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, <-fed)
	require.NoError(t, p.Stop(t.Context()))
	<-p.Started()
}

func TestAPipelineThatCannotStartIsDoneAndNotStarted(t *testing.T) {
	p := made(t, stage.New("s", fn(echo[int])))
	require.NoError(t, p.Stop(t.Context()))
	select {
	case <-p.Started():
		require.Fail(t, "it never started")
	case <-p.Done():
	}
}
