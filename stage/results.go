package stage

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/part"
)

// results is where the results of a function go.
type results[Out any] struct {
	now      atomic.Pointer[way[Out]] // the way itself is never changed
	required string                   // the kind of the stage, if its results must lead somewhere; else ""
	shown    bool                     // users see the outcomes of send
	chained  *behaviour.Inlet         // of the flow that a Chain has put behind; nil if none has
	of       *settings
	stage    *inbox.Inbox
}

// way is where results go: to all ports, or to one that pick chooses.
type way[Out any] struct {
	ports []*behaviour.Port[Out]
	pick  func(out Out, n int) int // nil: to all
	asked bool                     // a caller named targets; those that cannot be targets are faults
}

func newResults[Out any]() *results[Out] {
	r := new(results[Out])
	r.now.Store(new(way[Out]))
	return r
}

func (r *results[Out]) way() *way[Out] { return r.now.Load() }

// and returns a way that leads to further targets. It records faults of the
// targets.
func (w *way[Out]) and(option string, targets []behaviour.Target[Out], pick func(out Out, n int) int, flaw func(option, problem string)) *way[Out] {
	more := &way[Out]{ports: slices.Clone(w.ports), pick: pick, asked: true}
	if len(targets) == 0 {
		flaw(option, "there is no target")
	}
	for i, to := range targets {
		in, problem := targetInlet(i, to, more.outs())
		if problem != "" {
			flaw(option, problem)
			continue
		}
		port := behaviour.NewPort[Out]("to " + in.Name())
		if err := port.Connect(to); err != nil {
			flaw(option, err.Error())
			continue
		}
		more.ports = append(more.ports, port)
	}
	return more
}

// targetInlet returns the inlet of target i, or why it is not added to the
// targets that ports lead to.
func targetInlet(i int, to interface{ Inlet() *behaviour.Inlet }, others []behaviour.Outlet) (in *behaviour.Inlet, problem string) {
	if !engine.IsNil(to) {
		in = to.Inlet()
	}
	switch {
	case in == nil:
		return nil, fmt.Sprintf("target %d is nil", i+1)
	case slices.ContainsFunc(others, func(o behaviour.Outlet) bool { return o.Inlet() == in }):
		return nil, fmt.Sprintf("target %d is stage %q, which is a target already", i+1, in.Name())
	}
	return in, ""
}

// outs returns the ports as a stage declares them.
func (w *way[Out]) outs() (all []behaviour.Outlet) {
	for _, port := range w.ports {
		all = append(all, port)
	}
	return all
}

// lead replaces the way, and the ports that the stage declares for it.
func (r *results[Out]) lead(to *way[Out]) {
	r.of.replaceOuts(r.now.Swap(to).outs(), to.outs())
}

// replaceOuts replaces ports that the stage declares.
func (s *settings) replaceOuts(old, to []behaviour.Outlet) {
	others := slices.DeleteFunc(slices.Clone(s.engine.Outs), func(o behaviour.Outlet) bool { return slices.Contains(old, o) })
	s.engine.Outs = slices.Concat(others, to)
}

// check finds a function whose results lead nowhere but must.
func (r *results[Out]) check(check *checker) {
	check.that(r.required == "" || r.way().asked, "leads nowhere: name the stages for its results with To", "%s", r.required)
}

// send is the outcome of a command with one result.
func (r *results[Out]) send(ctx context.Context, out *Out) behaviour.Outcome {
	w := r.way()
	switch {
	case len(w.ports) == 0:
		return behaviour.OK(*out)
	case len(w.ports) == 1 && w.pick == nil:
		return r.forward(w.ports[0], out)
	case w.pick != nil:
		port, err := r.picked(w, *out)
		if err != nil {
			return behaviour.Error(err)
		}
		return r.forward(port, out)
	}
	for _, port := range w.ports[1:] {
		if err := behaviour.Emit(ctx, port, *out); err != nil {
			return behaviour.Error(err)
		}
	}
	return r.forward(w.ports[0], out)
}

// forward is [behaviour.Forward] without its allocation. Users may keep an
// outcome and use it again, so that one cannot have a box. This one goes to the
// engine and nowhere else, unless it is shown or there is middleware.
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
	w := r.way()
	if w.pick != nil {
		port, err := r.picked(w, out)
		if err != nil {
			return err
		}
		return behaviour.Emit(ctx, port, out)
	}
	for _, port := range w.ports {
		if err := behaviour.Emit(ctx, port, out); err != nil {
			return err
		}
	}
	return nil
}

func (r *results[Out]) picked(w *way[Out], out Out) (*behaviour.Port[Out], error) {
	i := w.pick(out, len(w.ports))
	if i < 0 || i >= len(w.ports) {
		return nil, fmt.Errorf("stage %q: its Route picked target %d of %d, counted from 0", r.of.engine.Inbox.Name, i, len(w.ports))
	}
	return w.ports[i], nil
}

// rewire is a To or Route of a flow that belongs to a pipeline. It changes
// nothing until pipeline.Rewire has checked it.
type rewire[Out any] struct {
	of     *results[Out]
	option string
	to     *way[Out]
	faults []error
}

// Part makes it a part of a pipeline.
func (*rewire[Out]) Part(part.Seal) {}

// Source returns the inbox of the stage whose results it is about.
func (r *rewire[Out]) Source() *inbox.Inbox { return r.of.stage }

// Outs returns the ports to the new targets.
func (r *rewire[Out]) Outs() []behaviour.Outlet { return r.to.outs() }

// Were returns the ports to the present targets.
func (r *rewire[Out]) Were() []behaviour.Outlet { return r.of.way().outs() }

// Faults returns the faults of the new targets.
func (r *rewire[Out]) Faults() []error { return r.faults }

// Connect has the results go there from now on.
func (r *rewire[Out]) Connect() { r.of.lead(r.to) }

func (r *rewire[Out]) flaw(problem string) {
	r.faults = append(r.faults, &OptionError{r.of.stage.Name(), r.option, problem})
}

// rewire returns the part that has results go to other targets, nil if the
// stage does not belong to a pipeline yet.
func (r *results[Out]) rewire(option string, targets []behaviour.Target[Out], pick func(out Out, n int) int) *rewire[Out] {
	if r.stage.Pipeline() == nil {
		return nil
	}
	x := &rewire[Out]{of: r, option: option}
	x.to = new(way[Out]).and(option, targets, pick, func(_, problem string) { x.flaw(problem) })
	if r.chained != nil && (pick != nil || len(x.to.ports) > 0 && x.to.ports[0].Inlet() != r.chained) {
		x.flaw(fmt.Sprintf("a Chain connects it to %q, which must stay its first target and give the results", r.chained.Name()))
	}
	return x
}
