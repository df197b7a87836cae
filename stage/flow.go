package stage

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/part"
)

// Flow is a stage made of a plain function by [Map], [FlatMap], [Filter] or
// [Sink], or several of them one behind the other, see [Chain]. It takes
// commands of type In, and its results are of type Out. It is a stage like any
// other: its embedded Stage takes the commands, and all options are for it too.
//
// The results go to the stages that [Flow.To] or [Flow.Route] names. Without
// either, a result is the reply to the caller.
//
//	parse := stage.Map("parse", parseLine)  // func(context.Context, string) (Record, error)
//	save := stage.Sink("save", store)       // func(context.Context, Record) error
//	p, err := pipeline.New("log", parse.To(save))
type Flow[In, Out any] struct {
	*Stage[In]

	end   *results[Out] // of the last function
	parts part.List     // the stages of a chain; nil if there is one
}

// Map makes a stage around a function with one result for each command. A nil
// error sends the result on; any other is the command's error outcome, as
// [behaviour.Error] is. As with [Func], several workers call the function in
// parallel.
func Map[In, Out any](name string, f func(ctx context.Context, in In) (Out, error), opts ...Option) *Flow[In, Out] {
	end := newResults[Out]()
	return newFlow(name, "Map", f == nil, end, opts, func(ctx context.Context, in In) behaviour.Outcome {
		out, err := f(ctx, in)
		if err != nil {
			return behaviour.Error(err)
		}
		return end.send(ctx, &out)
	})
}

// Filter makes a stage that sends on the commands for which keep returns true.
// The others are done: they count as replied, with no result.
func Filter[T any](name string, keep func(ctx context.Context, cmd T) (bool, error), opts ...Option) *Flow[T, T] {
	end := newResults[T]()
	return newFlow(name, "Filter", keep == nil, end, opts, func(ctx context.Context, cmd T) behaviour.Outcome {
		ok, err := keep(ctx, cmd)
		switch {
		case err != nil:
			return behaviour.Error(err)
		case !ok:
			return behaviour.OK(nil)
		default:
			return end.send(ctx, &cmd)
		}
	})
}

// FlatMap makes a stage around a function with any number of results for each
// command: it calls emit with each of them. The results are sent on when the
// function has returned nil. A try that crashes or returns an error sends none,
// except that a function with more than 256 results sends the first before it
// has returned; see [behaviour.Emit], whose errors emit returns.
//
// A FlatMap must lead somewhere: pipeline.New refuses one without [Flow.To] or
// [Flow.Route]. A caller that waits for the command waits for all that came of
// its results, and gets no result.
func FlatMap[In, Out any](
	name string, f func(ctx context.Context, in In, emit func(Out) error) error, opts ...Option,
) *Flow[In, Out] {
	end := newResults[Out]()
	end.required = "FlatMap"
	flow := newFlow(name, "FlatMap", f == nil, end, opts, func(ctx context.Context, in In) behaviour.Outcome {
		if err := f(ctx, in, func(out Out) error { return end.emit(ctx, out) }); err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(nil)
	})
	flow.set.engine.Single = false
	return flow
}

// Sink makes a stage around a function without a result: the last of a
// pipeline.
func Sink[In any](name string, f func(ctx context.Context, in In) error, opts ...Option) *Flow[In, struct{}] {
	return newFlow(name, "Sink", f == nil, newResults[struct{}](), opts, func(ctx context.Context, in In) behaviour.Outcome {
		if err := f(ctx, in); err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(nil)
	})
}

func newFlow[In, Out any](
	name, kind string, isNil bool, end *results[Out], opts []Option, f behaviour.Func[In],
) *Flow[In, Out] {
	s := Func(name, f, opts...)
	end.of, end.stage = s.set, s.inbox
	s.set.engine.Single = len(s.set.engine.Outs) == 0 // else the function may emit
	if isNil {
		s.set.flaw(kind, "the function is nil")
	}
	s.set.checks = append(s.set.checks, end.check)
	return &Flow[In, Out]{Stage: s, end: end}
}

// Call submits a command and waits for its end: see the function [Call]. The
// result is the flow's if the flow leads nowhere else; call the [Chain] as a
// whole if it does. A command that a [Filter] does not keep has the zero
// result, and so has one of a [FlatMap] or [Sink].
func (f *Flow[In, Out]) Call(ctx context.Context, in In) (Out, error) {
	return Call[Out](ctx, f.first(), in)
}

// Submit submits a command to the flow's first stage: see [Stage.Submit].
func (f *Flow[In, Out]) Submit(ctx context.Context, in In) error { return f.first().Submit(ctx, in) }

// SubmitAll submits commands to the flow's first stage: see [Stage.SubmitAll].
func (f *Flow[In, Out]) SubmitAll(ctx context.Context, in ...In) (accepted int, err error) {
	return f.first().SubmitAll(ctx, in...)
}

// Ask submits a command to the flow's first stage: see [Stage.Ask].
func (f *Flow[In, Out]) Ask(ctx context.Context, in In) (*Ticket, error) {
	return f.first().Ask(ctx, in)
}

// first returns the first stage, nil if the flow is nil.
func (f *Flow[In, Out]) first() *Stage[In] {
	if f == nil {
		return nil
	}
	return f.Stage
}

// To has the flow send each result to a stage, or to each of several: then a
// caller that waits for the command waits for all of them, and gets the result
// of the first. It may be called again to name further stages, until the
// pipeline is made. Several stages get the same value at the same time, so none
// of them may change what a pointer, map or slice in it leads to.
//
// The returned part stands for the flow and for the targets that are stages:
// give it to pipeline.New. The stages need not be given to New again.
//
// Once the flow belongs to a pipeline, To changes nothing by itself. The part
// that it returns is for pipeline.Pipeline.Rewire, which has the flow lead to
// these stages and no others.
func (f *Flow[In, Out]) To(target behaviour.Target[Out], more ...behaviour.Target[Out]) part.Part {
	return f.lead("To", append([]behaviour.Target[Out]{target}, more...), nil)
}

// Route has the flow send each result to one of several stages. Pick chooses
// it: it returns the number, from 0, of one of n targets, and n is at least 1;
// see package stage/route. Pick is called by many workers at once, and must not
// change the result. A number outside 0 to n-1 is the command's error
// outcome. A flow has one Route or any number of To. The returned part is used like the part of [Flow.To]; once the flow
// belongs to a pipeline, it is for pipeline.Pipeline.Rewire.
func (f *Flow[In, Out]) Route(pick func(out Out, n int) int, targets ...behaviour.Target[Out]) part.Part {
	if pick != nil || !f.isMade() {
		return f.lead("Route", targets, pick)
	}
	if r := f.end.rewire("Route", targets, nil); r != nil {
		r.flaw("the function is nil")
		return r
	}
	f.end.of.flaw("Route", "the function is nil")
	return f.lead("Route", targets, func(Out, int) int { return 0 })
}

// unmade is the problem of a flow that is nil or a zero Flow.
const unmade = "is nil, or was not made with Map, FlatMap, Filter, Sink, FlowOf or Chain"

func (f *Flow[In, Out]) isMade() bool { return f != nil && f.end != nil }

// lead adds targets, and returns the part of the flow and its targets.
func (f *Flow[In, Out]) lead(option string, targets []behaviour.Target[Out], pick func(out Out, n int) int) part.Part {
	if !f.isMade() {
		return part.Fault{Name: option, Problem: "the flow " + unmade}
	}
	list, end := f.Parts(), f.end
	if r := end.rewire(option, targets, pick); r != nil {
		return r
	}
	switch now := end.way(); {
	case now.pick != nil, pick != nil && len(now.ports) > 0:
		end.of.flaw(option, "a flow has one Route, or any number of To, and not both")
	default:
		end.lead(now.and(option, targets, pick, end.of.flaw))
		for _, to := range targets {
			list = withPart(list, to)
		}
	}
	return list
}

// withPart adds a target to a list of parts if it is a part.
func withPart(list part.List, target any) part.List {
	if p, ok := target.(part.Part); ok && !engine.IsNil(target) {
		return append(list, p)
	}
	return list
}

// Parts returns the stages of the flow. It is for package pipeline.
func (f *Flow[In, Out]) Parts() part.List {
	if f == nil {
		return part.List{(*Stage[In])(nil)}
	}
	if f.parts != nil {
		return append(part.List(nil), f.parts...)
	}
	return part.List{f.Stage}
}

// Chain connects two flows, as first.To(second) does, and returns them as one:
// it takes the commands of the first and has the results of the second. Flows
// whose types do not fit do not compile. A chain is a flow, so chains can be
// chained.
func Chain[A, B, C any](first *Flow[A, B], second *Flow[B, C]) *Flow[A, C] {
	switch {
	case !first.isMade() && !second.isMade():
		return unchained[A, C]("Chain", "both flows are nil, or were not made with a function of this package")
	case !first.isMade():
		return unchained[A, C](second.Name(), "the first flow "+unmade)
	case !second.isMade():
		return unchained[A, C](first.Name(), "the second flow "+unmade)
	}
	list, ok := first.To(second).(part.List)
	if !ok {
		list = append(first.Parts(), part.Fault{
			Name:    fmt.Sprintf("stage %q, Chain", first.end.stage.Name()),
			Problem: "the stage belongs to a pipeline already: chain it before pipeline.New",
		})
	} else {
		first.end.chained = second.Inlet()
	}
	return &Flow[A, C]{Stage: first.Stage, end: second.end, parts: list}
}

// unchained returns a flow that pipeline.New refuses, because one of two flows
// cannot be chained. It has the name of the other flow.
func unchained[In, Out any](name, problem string) *Flow[In, Out] {
	f := newFlow(name, "Chain", false, newResults[Out](), nil, func(context.Context, In) behaviour.Outcome { return behaviour.OK(nil) })
	f.end.of.flaw("Chain", problem)
	return f
}
