package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/stage"
)

// Rewire has stages lead elsewhere while the pipeline runs. A [Wire] moves its
// port to another stage. The To or Route of a [stage.Flow] replaces all targets
// of the flow, and the way in which one of them is picked:
//
//	err := p.Add(ctx, saveV2)
//	err = p.Rewire(ctx, parse.To(saveV2))
//	err = p.Remove(ctx, save)
//
// The wires are checked as [New] checks them, and the error joins all faults;
// then nothing has changed. The stages must be there, and neither drained nor
// being removed. A flow that [stage.Chain] has put before another keeps that as
// its first target.
//
// Each port, and each flow, changes at one instant: a result goes to the old
// targets or to the new ones. Several wires of one call change one after the
// other. No command is lost, and none is handled twice. Commands that handlers
// have sent along an old wire go to its stage: Rewire returns when all of them
// have arrived in that stage's queue, so that the stage may be removed then. If
// ctx ends before, or the pipeline stops, the new wires stay, and the error
// says from where to where commands may still be on their way; the next Rewire,
// and Remove of that stage, wait for them too. Other stages and handlers never
// wait for Rewire, but a handler must not rewire its own stage, since Rewire
// would wait for the handler.
//
// Commands keep their order as far as they take one wire. One that takes the
// new wire may overtake one that has taken the old wire and waits in the queue
// of the old stage. Where that matters, for the commands of a stage with one
// worker or for each key of [stage.Keyed], pause the new stage until the old
// one is removed:
//
//	err = p.Pause(saveV2)
//	err = p.Rewire(ctx, parse.To(saveV2))
//	err = p.Remove(ctx, save)
//	err = p.Resume(saveV2)
//
// Handlers that run in parallel at the time of the change may take either wire,
// whatever the order of their commands; so it is with [stage.Ordered], too, of
// which each target gets its results in order. A handler that waits for a slot
// of the paused stage, to emit more than 256 commands or to submit, holds
// Rewire up.
//
// Only the process that runs a stage can rewire it: for another, which
// [RunsHere] has run elsewhere, the error is [stage.ErrElsewhere].
//
// A caller that waits for a command gets the result of the stage where it ends,
// whichever that is now. The error is [ErrNotRunning] before the start and once
// the pipeline is being stopped, and [stage.ErrDraining] while all of it is
// drained.
func (p *Pipeline) Rewire(ctx context.Context, wires ...Part) error {
	link.CheckContext(ctx, "pipeline: Rewire")
	if err := p.checkCaller(); err != nil {
		return err
	}
	p.growing.Lock()
	defer p.growing.Unlock()
	switch {
	case !p.life.in(running):
		return fmt.Errorf("pipeline %q: rewire: %w", p.life.name, ErrNotRunning)
	case p.host.Draining.Load():
		return fmt.Errorf("pipeline %q: rewire: %w", p.life.name, stage.ErrDraining)
	}
	plan := &rewiring{host: p.host, plan: plan{name: p.life.name, present: p.stages().stages}}
	plan.makeIndex()
	if err := plan.checkAll(wires); err != nil {
		return err
	}
	for _, connect := range plan.connects {
		connect()
	}
	for _, c := range plan.sources {
		if c.Process() != "" {
			continue
		}
		for _, to := range p.graph.Redeclare(c.Inbox(), c.Spec().Outs()) {
			p.left = append(p.left, edge{c, to})
		}
	}
	if err := p.forget(ctx, func(edge) bool { return true }); err != nil {
		return fmt.Errorf("pipeline %q: rewire: the new wires hold: %w", p.life.name, err)
	}
	return nil
}

// rewiring is the wires of one Rewire while they are checked.
type rewiring struct {
	plan

	host     *inbox.Pipeline
	connects []func()
	sources  []*engine.Core
	changed  map[any]bool // ports, and the inboxes of flows
}

// checkAll returns all faults of the parts of Rewire.
func (r *rewiring) checkAll(parts []Part) error {
	r.changed = map[any]bool{}
	r.place("part", parts)
	if len(parts) == 0 {
		r.faultf("Rewire", "names no wire")
	}
	return errors.Join(r.faults...)
}

func (r *rewiring) place(name string, parts []Part) {
	for i, x := range parts {
		name := fmt.Sprintf("%s %d", name, i+1)
		switch x := x.(type) {
		case nil:
			r.faultf(name, "is nil")
		case joined:
			r.place(name+", part", x)
		case wire:
			r.checkWire(name, x)
		case rewired:
			r.checkFlow(x)
		case part.Fault:
			r.faultf(x.Name, "%s", x.Problem)
		case engine.Staged:
			r.faultf(name, "is a stage, and no wire; Add adds stages")
		default:
			r.faultf(name, "is %s, and no wire of a pipeline that runs", nameOf(x))
		}
	}
}

// checkWire checks the new wire of a port. Several stages may declare the port.
func (r *rewiring) checkWire(name string, w wire) {
	if w.port == nil {
		r.faultf(name, "the port is nil")
		return
	}
	name = fmt.Sprintf("port %q", w.port.Name())
	switch {
	case !r.index.owners[w.port]:
		r.faultf(name, "no stage of this pipeline declares it with stage.Out")
	case r.changed[w.port]:
		r.faultf(name, "is wired twice")
	case w.to == nil:
		r.faultf(name, "is wired to no stage: its target is nil, or a port")
	default:
		r.connects = append(r.connects, w.rewire)
		to := w.to.Inbox().Inlet()
		var owners []*engine.Core
		for _, c := range r.present {
			if slices.Contains(c.Spec().Outs(), w.port) {
				owners = append(owners, c)
				r.checkEdge(name, c, to)
			}
		}
		r.checkHere(owners)
		r.checkLeft(name, []behaviour.Outlet{w.port}, to)
	}
	r.changed[w.port] = true
}

// checkFlow checks the new targets of a flow.
func (r *rewiring) checkFlow(x rewired) {
	name := fmt.Sprintf("stage %q", x.Source().Name())
	i, ours := r.index.places[x.Source().Inlet()]
	switch {
	case !ours:
		r.faultf(name, "is not part of this pipeline%s", r.whereabouts(x.Source().Inlet()))
	case r.changed[x.Source()]:
		r.faultf(name, "is connected twice; name all targets in one To")
	default:
		r.connects = append(r.connects, x.Connect)
		r.faults = append(r.faults, x.Faults()...)
		r.checkHere(r.present[i : i+1])
		outs := x.Outs()
		to := make([]*behaviour.Inlet, 0, len(outs))
		for _, port := range outs {
			to = append(to, port.Inlet())
			r.checkEdge(name, r.present[i], port.Inlet())
		}
		r.checkLeft(name, x.Were(), to...)
	}
	r.changed[x.Source()] = true
}

// checkHere checks that one of the stages that have a port runs in this
// process: in another one nothing would change.
func (r *rewiring) checkHere(owners []*engine.Core) {
	if slices.ContainsFunc(owners, func(c *engine.Core) bool { return c.Process() == "" }) {
		return
	}
	for _, c := range owners {
		r.faults = append(r.faults, &engine.ElsewhereError{Stage: c.Name(), Process: c.Process(), Problem: "it can be rewired there only"})
	}
}

// checkEdge checks an edge that a stage is to have.
func (r *rewiring) checkEdge(name string, from *engine.Core, to *behaviour.Inlet) {
	if !slices.Contains(r.sources, from) {
		r.sources = append(r.sources, from)
		r.checkUse(stageName(from), "", from.Inbox())
	}
	i, ours := r.index.places[to]
	if !ours {
		r.faultf(name, "leads to stage %q, which is not part of this pipeline%s", to.Name(), cmp.Or(r.whereabouts(to), "; add it first"))
		return
	}
	r.checkUse(name, "leads to a stage that ", r.present[i].Inbox())
	if why := r.present[i].Inbox().Config().Elsewhere; why != nil && from.Process() == "" {
		r.faultf(name, "leads to a stage that no commands can be sent to: %v", why)
	}
	if r.present[i] == from && from.Inbox().Settings().Knobs().Capacity == 1 {
		r.faultf(name, "is a loop without slack: it forwards to itself and its capacity is one command; needs Capacity(2)")
	}
}

// whereabouts says where a stage is that is not part of the pipeline: "" if it
// is in none.
func (r *rewiring) whereabouts(inlet *behaviour.Inlet) string {
	in, ok := inlet.Inbox().(*inbox.Inbox)
	if !ok || in.Pipeline() == nil {
		return ""
	}
	switch of := in.Pipeline(); of {
	case r.host:
		return ": it was removed"
	default:
		return fmt.Sprintf(", but of %q", of.Name)
	}
}

// checkLeft checks that no port is led away from a drained stage. A drained
// stage holds back commands that are on their way to it, and Rewire would wait
// for these.
func (r *rewiring) checkLeft(name string, were []behaviour.Outlet, to ...*behaviour.Inlet) {
	for _, port := range were {
		i, ours := r.index.places[port.Inlet()]
		if ours && !slices.Contains(to, port.Inlet()) && !r.present[i].Inbox().Phases().InUse() {
			r.faultf(name, "leads away from a stage that is drained: reopen it first")
		}
	}
}

// checkUse checks that a stage is neither drained nor being removed.
func (r *rewiring) checkUse(name, lead string, in *inbox.Inbox) {
	switch closed, _ := in.Phases().Stopped(); {
	case !in.Phases().InUse():
		r.faultf(name, "%sis drained: reopen it first", lead)
	case closed:
		r.faultf(name, "%sis being removed", lead)
	}
}
