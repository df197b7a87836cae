package stage

import (
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/internal/plain"
)

// FlowOf makes a flow of a behaviour: for one that has state, takes batches,
// suspends, or has a Start, and whose results go where the flow leads. Its
// stage is made as by [New].
//
// FlowOf calls make once, with the function that sends a result on: the outcome
// of send is the handler's outcome. Send is for handlers, which pass the
// context that they were given. A command without a result is answered with
// behaviour.OK(nil).
//
//	flow := stage.FlowOf("join", func(send func(context.Context, Pair) behaviour.Outcome) (behaviour.Behaviour[Part], error) {
//		return &joiner{send: send}, nil
//	})
//
// An error from make is a fault of the stage: pipeline.New returns it, and so
// it does each error that it joins. The Stage of a [*OptionError] may be left
// out. A panic of make, or a runtime.Goexit, is such an error.
func FlowOf[In, Out any](
	name string,
	make func(send func(ctx context.Context, out Out) behaviour.Outcome) (behaviour.Behaviour[In], error),
	opts ...Option,
) *Flow[In, Out] {
	end := newResults[Out]()
	end.shown = true
	var b behaviour.Behaviour[In]
	var err error
	if make != nil {
		err = crash.Guard(name, func() (err error) {
			b, err = make(func(ctx context.Context, out Out) behaviour.Outcome { return end.send(ctx, &out) })
			return err
		})
	}
	s := New(name, b, opts...)
	if err != nil {
		s.set.flaws = nil // New found no behaviour; err says why
		s.set.refuse(err)
	}
	end.of, end.stage = s.set, s.inbox
	if l, ok := any(b).(leader); ok {
		end.required = l.MustLead(part.Seal{})
		s.set.checks = append(s.set.checks, end.check)
	}
	return &Flow[In, Out]{Stage: s, end: end}
}

// leader is a behaviour whose results must lead to another stage. MustLead
// returns the kind of its stage.
type leader interface{ MustLead(part.Seal) string }

// refuse records an error as the faults that it is made of.
func (s *settings) refuse(err error) {
	switch e := err.(type) { //nolint:errorlint // a wrapped fault is a text of its own
	case *OptionError:
		s.flaw(e.Option, e.Problem)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			s.refuse(one)
		}
	case *crash.Error:
		s.flaw("FlowOf", "make crashed: "+plain.Text(e.Value))
	default:
		s.flaw("FlowOf", err.Error())
	}
}
