//go:build unix

package pipeline_test

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestTheEndingSaysWhetherThePipelineFinishedWasInterruptedOrGaveUp(t *testing.T) {
	rows := map[pipeline.Ending]func(p *pipeline.Pipeline){
		{Ended: true}:                          func(p *pipeline.Pipeline) { go func() { _ = p.Stop(context.Background()) }() },
		{Ended: true, Signal: syscall.SIGTERM}: func(*pipeline.Pipeline) { _ = syscall.Kill(syscall.Getpid(), syscall.SIGTERM) },
		{Ended: true, GaveUp: true}:            func(*pipeline.Pipeline) { panic("broken") },
	}
	for want, end := range rows {
		t.Run(want.String(), func(t *testing.T) {
			var p *pipeline.Pipeline
			s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
				if n == 0 || want.GaveUp { // a second signal would stop it hard
					end(p)
				}
				return behaviour.OK(nil)
			}, stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: -1}))
			p = made(t, s)
			require.Equal(t, pipeline.Ending{}, p.Ending())
			fed := make(chan struct{})
			go func() {
				defer close(fed)
				<-p.Started()
				for n := range 3 { // crashes
					if s.Submit(context.Background(), n) != nil {
						return
					}
				}
			}()
			err := p.RunUntilSignal(t.Context())
			<-fed
			require.Equal(t, want.GaveUp, err != nil, err)
			require.Equal(t, want, p.Ending())
		})
	}
}

func TestAPipelineThatCannotStartGaveUp(t *testing.T) {
	p := made(t, stage.Each("bad", func() behaviour.Behaviour[int] { return nil }))
	require.Error(t, p.Run(t.Context()))
	require.Equal(t, pipeline.Ending{Ended: true, GaveUp: true}, p.Ending())
}
