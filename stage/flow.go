package stage

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/part"
)

// Flow is a stage made of a plain function by [Map], [FlatMap], [Filter] or [Sink], or several of them one behind the other,
// see [Chain]. It takes commands of type In, and its results are of type Out. It is a stage like any other: its
// embedded Stage takes the commands, and all options are for it too.
//
// The results go to the stages that [Flow.To] or [Flow.Route] names. Without either, a result is the reply to the caller.
//
//	parse := stage.Map("parse", parseLine)  // func(context.Context, string) (Record, error)
//	save := stage.Sink("save", store)       // func(context.Context, Record) error
//	p, err := pipeline.New("log", parse.To(save))
type Flow[In, Out any] struct {
	*Stage[In]

	end   *results[Out] // of the last function
	parts part.List     // the stages of a chain; nil if there is one
}

// Map makes a stage around a function with one result for each command. A nil error sends the result on; any other is the
// command's error outcome, as [behaviour.Error] is. As with [Func], several workers call the function in parallel.
func Map[In, Out any](name string, f func(ctx context.Context, in In) (Out, error), opts ...Option) *Flow[In, Out] {
	end := new(results[Out])
	return newFlow(name, "Map", f == nil, end, opts, func(ctx context.Context, in In) behaviour.Outcome {
		out, err := f(ctx, in)
		if err != nil {
			return behaviour.Error(err)
		}
		return end.send(ctx, &out)
	})
}

// Filter makes a stage that sends on the commands for which keep returns true. The others are done: they count as replied,
// with no result.
func Filter[T any](name string, keep func(ctx context.Context, cmd T) (bool, error), opts ...Option) *Flow[T, T] {
	end := new(results[T])
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

// FlatMap makes a stage around a function with any number of results for each command: it calls emit with each of them.
// The results are sent on when the function has returned nil. A try that crashes or returns an error sends none, except that
// a function with more than 256 results sends the first before it has returned; see [behaviour.Emit], whose errors emit
// returns.
//
// A FlatMap must lead somewhere: pipeline.New refuses one without [Flow.To] or [Flow.Route]. A caller that waits for the
// command waits for all that came of its results, and gets no result.
func FlatMap[In, Out any](
	name string, f func(ctx context.Context, in In, emit func(Out) error) error, opts ...Option,
) *Flow[In, Out] {
	end := &results[Out]{required: true}
	return newFlow(name, "FlatMap", f == nil, end, opts, func(ctx context.Context, in In) behaviour.Outcome {
		if err := f(ctx, in, func(out Out) error { return end.emit(ctx, out) }); err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(nil)
	})
}

// Sink makes a stage around a function without a result: the last of a pipeline.
func Sink[In any](name string, f func(ctx context.Context, in In) error, opts ...Option) *Flow[In, struct{}] {
	return newFlow(name, "Sink", f == nil, new(results[struct{}]), opts, func(ctx context.Context, in In) behaviour.Outcome {
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
	if isNil {
		s.set.flaw(kind, "the function is nil")
	}
	s.set.checks = append(s.set.checks, end.check)
	return &Flow[In, Out]{Stage: s, end: end}
}

// Call submits a command and waits for its end: see the function [Call]. The result is the flow's if the flow leads nowhere
// else; call the [Chain] as a whole if it does. A command that a [Filter] does not keep has the zero result,
// and so has one of a [FlatMap] or [Sink].
func (f *Flow[In, Out]) Call(ctx context.Context, in In) (Out, error) {
	return Call[Out](ctx, f.Stage, in)
}

// To has the flow send each result to a stage, or to each of several: then a caller that waits for the command waits for
// all of them, and gets the result of the first. It may be called again to name further stages, until the pipeline is made.
// Several stages get the same value at the same time, so none of them may change what a pointer, map or slice in it leads to.
//
// The returned part stands for the flow and for the targets that are stages: give it to pipeline.New. The stages need not be
// given to New again.
func (f *Flow[In, Out]) To(target behaviour.Target[Out], more ...behaviour.Target[Out]) part.Part {
	return f.lead("To", append([]behaviour.Target[Out]{target}, more...), nil)
}

// Pick chooses one of n targets for a result, counted from 0; n is at least 1. It is called by many workers at once, and
// must not change the result. A number outside 0 to n-1 is the command's error outcome: a [*RouteError].
type Pick[Out any] func(out Out, n int) int

// Route has the flow send each result to one of several stages, which pick chooses: see [RoundRobin] and [ByKey]. A flow has
// one Route or any number of To. The returned part is that of [Flow.To].
func (f *Flow[In, Out]) Route(pick Pick[Out], targets ...behaviour.Target[Out]) part.Part {
	if pick == nil {
		f.end.of.flaw("Route", "the function is nil")
		pick = func(Out, int) int { return 0 }
	}
	return f.lead("Route", targets, pick)
}

// lead adds targets, and returns the part of the flow and its targets.
func (f *Flow[In, Out]) lead(option string, targets []behaviour.Target[Out], pick Pick[Out]) part.Part {
	list, end := f.Parts(), f.end
	switch {
	case end.stage.Pipeline() != nil:
		return append(list, part.Fault{
			Name:    fmt.Sprintf("stage %q, %s", end.stage.Name(), option),
			Problem: "the stage belongs to a pipeline already: connect it before pipeline.New",
		})
	case end.pick != nil, pick != nil && len(end.ports) > 0:
		end.of.flaw(option, "a flow has one Route, or any number of To, and not both")
		return list
	case len(targets) == 0:
		end.of.flaw(option, "there is no target")
		return list
	}
	end.pick = pick
	for i, to := range targets {
		if engine.IsNil(to) || to.Inlet() == nil {
			end.of.flaw(option, fmt.Sprintf("target %d is nil", i+1))
			continue
		}
		end.add(option, to)
		if p, ok := to.(part.Part); ok {
			list = append(list, p)
		}
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

// Chain connects two flows, as first.To(second) does, and returns them as one: it takes the commands of the first and has
// the results of the second. Flows whose types do not fit do not compile. A chain is a flow, so chains can be chained.
func Chain[A, B, C any](first *Flow[A, B], second *Flow[B, C]) *Flow[A, C] {
	list, _ := first.To(second).(part.List)
	return &Flow[A, C]{Stage: first.Stage, end: second.end, parts: list}
}

// Chain3 is [Chain] of three flows. Go has no function of any number of type parameters.
func Chain3[A, B, C, D any](first *Flow[A, B], second *Flow[B, C], third *Flow[C, D]) *Flow[A, D] {
	return Chain(Chain(first, second), third)
}

// Chain4 is [Chain] of four flows. To chain more, chain chains.
func Chain4[A, B, C, D, E any](first *Flow[A, B], second *Flow[B, C], third *Flow[C, D], fourth *Flow[D, E]) *Flow[A, E] {
	return Chain(Chain3(first, second, third), fourth)
}

// results is where the results of a function go.
type results[Out any] struct {
	ports    []*behaviour.Port[Out] // not changed once the pipeline is made
	pick     Pick[Out]              // nil: to all
	required bool                   // results must lead somewhere
	shown    bool                   // users see the outcomes of send
	of       *settings
	stage    *inbox.Inbox
}

// add adds a target.
func (r *results[Out]) add(option string, to behaviour.Target[Out]) {
	port := behaviour.NewPort[Out]("to " + to.Inlet().Name())
	if err := port.Connect(to); err != nil {
		r.of.flaw(option, err.Error())
		return
	}
	r.ports = append(r.ports, port)
	r.of.Outs = append(r.of.Outs, port)
}

// check finds a function whose results lead nowhere but must.
func (r *results[Out]) check(check *checker) {
	check.that(!r.required || len(r.ports) > 0, "leads nowhere: name the stages for its results with To", "FlatMap")
}

// send is the outcome of a command with one result.
func (r *results[Out]) send(ctx context.Context, out *Out) behaviour.Outcome {
	switch {
	case len(r.ports) == 0:
		return behaviour.OK(*out)
	case len(r.ports) == 1 && r.pick == nil:
		return r.forward(r.ports[0], out)
	case r.pick != nil:
		port, err := r.picked(*out)
		if err != nil {
			return behaviour.Error(err)
		}
		return r.forward(port, out)
	}
	for _, port := range r.ports[1:] {
		if err := behaviour.Emit(ctx, port, *out); err != nil {
			return behaviour.Error(err)
		}
	}
	return r.forward(r.ports[0], out)
}

// forward is [behaviour.Forward] without its allocation. Users may keep an outcome and use it again, so that one cannot have a
// box. This one goes to the engine and nowhere else, unless it is shown or there is middleware.
func (r *results[Out]) forward(port *behaviour.Port[Out], out *Out) behaviour.Outcome {
	if r.shown || len(r.of.wide)+len(r.of.around) > 0 {
		return behaviour.Forward(port, *out)
	}
	inlet := port.Inlet()
	return behaviour.Forward(loaded{inlet}, link.Load(inlet, out))
}

// loaded is a target for commands as envelopes have them.
type loaded struct{ to *behaviour.Inlet }

func (l loaded) Submit(context.Context, any) error { return behaviour.ErrUnwired }
func (l loaded) Inlet() *behaviour.Inlet           { return l.to }

// emit sends one of several results of a command.
func (r *results[Out]) emit(ctx context.Context, out Out) error {
	if r.pick != nil {
		port, err := r.picked(out)
		if err != nil {
			return err
		}
		return behaviour.Emit(ctx, port, out)
	}
	for _, port := range r.ports {
		if err := behaviour.Emit(ctx, port, out); err != nil {
			return err
		}
	}
	return nil
}

func (r *results[Out]) picked(out Out) (*behaviour.Port[Out], error) {
	i := r.pick(out, len(r.ports))
	if i < 0 || i >= len(r.ports) {
		return nil, &RouteError{Stage: r.of.Inbox.Name, Picked: i, Targets: len(r.ports)}
	}
	return r.ports[i], nil
}

// RoundRobin picks the targets in turn.
func RoundRobin[Out any]() Pick[Out] {
	var last atomic.Uint64
	return func(_ Out, n int) int { return int((last.Add(1) - 1) % uint64(n)) }
}

// ByKey picks one target for all results with the same key.
func ByKey[Out any, K comparable](key func(out Out) K) Pick[Out] {
	seed := maphash.MakeSeed()
	return func(out Out, n int) int { return int(maphash.Comparable(seed, key(out)) % uint64(n)) }
}
