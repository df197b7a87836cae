package submit

import (
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func lost(ctx context.Context, s *stage.Stage[int], port *behaviour.Port[int], p *pipeline.Pipeline) {
	s.Submit(ctx, 1)              // want `the error of Submit is ignored: a command that is refused is lost`
	_ = s.Submit(ctx, 1)          // want `the error of Submit is ignored`
	n, _ := s.SubmitAll(ctx, 1)   // want `the error of SubmitAll is ignored`
	go s.Submit(ctx, 1)           // want `the error of Submit is ignored`
	defer s.Submit(ctx, n)        // want `the error of Submit is ignored`
	s.Ask(ctx, 1)                 // want `the error of Ask is ignored`
	stage.Call[int](ctx, s, 1)    // want `the error of Call is ignored`
	port.Submit(ctx, 1)           // want `the error of Submit is ignored`
	behaviour.Emit(ctx, s, 1)     // want `the error of Emit is ignored`
	p.DeadLetters().Retry(ctx, 1) // want `the error of Retry is ignored`
}

func kept(ctx context.Context, s *stage.Stage[int]) error {
	if err := s.Submit(ctx, 1); err != nil {
		return err
	}
	_ = s.Submit(ctx, 1) //golda:ok a sample, which may be missing
	err := s.Submit(ctx, 1)
	_, ignored := s.SubmitAll(ctx, 1)
	_ = ignored
	s.Name()
	return err
}

type other struct{}

func (other) Submit(context.Context, int) error { return nil }

func notOurs(ctx context.Context, o other) { o.Submit(ctx, 1) }
