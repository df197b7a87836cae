package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/room"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// cored is a stage of whatever command type.
type cored interface{ Core() *stage.Core }

// plan is what New makes of its parts before it trusts them.
type plan struct {
	name   string
	set    settings
	stages []*stage.Core
	wires  []wire
	faults []error
}

func (p *plan) faultf(part, format string, args ...any) {
	p.faults = append(p.faults, &Fault{p.name, part, fmt.Sprintf(format, args...)})
}

// sort puts each part in its place.
func (p *plan) sort(parts []Part) {
	for i, x := range parts {
		switch x := x.(type) {
		case nil:
			p.faultf(fmt.Sprintf("part %d", i+1), "is nil")
		case option:
			x(&p.set)
		case wire:
			p.wires = append(p.wires, x)
		case cored:
			if c := x.Core(); c != nil {
				p.stages = append(p.stages, c)
				continue
			}
			p.faultf(fmt.Sprintf("part %d", i+1), "is a stage that was not made with stage.New or stage.Each")
		}
	}
}

// check finds all that is wrong.
func (p *plan) check() error {
	if p.name == "" {
		p.faultf("New", "a pipeline needs a name")
	}
	p.checkOptions()
	p.checkStages()
	p.checkWires()
	return errors.Join(p.faults...)
}

func (p *plan) checkOptions() {
	if p.set.policy == nil {
		p.faultf("Control", "the policy is nil")
	} else if err := p.set.policy.Check(); err != nil {
		p.faultf("Control", "%v", err)
	}
	if p.set.log == nil {
		p.faultf("Logger", "the logger is nil")
	}
	if p.set.strategy > supervisor.OneForAll {
		p.faultf("Supervise", "no such strategy: %d", p.set.strategy)
	}
	in := p.set.intensity
	if in.Restarts < 0 || in.Within < 0 || in.Restarts > 0 && in.Within == 0 {
		p.faultf("Intensity", "%d restarts within %v: needs a number and a period, neither negative", in.Restarts, in.Within)
	}
	if p.set.drain < 0 {
		p.faultf("DrainTimeout", "%v must not be negative", p.set.drain)
	}
	if p.set.grace < 0 {
		p.faultf("Grace", "%v must not be negative", p.set.grace)
	}
}

func (p *plan) checkStages() {
	if len(p.stages) == 0 {
		p.faultf("New", "a pipeline needs at least one stage")
	}
	names := map[string]bool{}
	for i, c := range p.stages {
		if slices.Contains(p.stages[:i], c) {
			p.faultf(stageName(c), "is given twice")
			continue
		}
		if names[c.Name()] && c.Name() != "" {
			p.faultf(stageName(c), "there is another stage of that name")
		}
		names[c.Name()] = true
		p.faults = append(p.faults, c.Faults()...)
	}
}

func stageName(c *stage.Core) string { return fmt.Sprintf("stage %q", c.Name()) }

func (p *plan) checkWires() {
	wired := map[behaviour.Outlet]bool{}
	for i, w := range p.wires {
		part := fmt.Sprintf("wire %d", i+1)
		if w.port == nil {
			p.faultf(part, "the port is nil")
			continue
		}
		part = fmt.Sprintf("port %q", w.port.Name())
		switch {
		case w.to == nil:
			p.faultf(part, "is wired to a stage that is nil")
		case !slices.Contains(p.stages, w.to):
			p.faultf(part, "is wired to stage %q, which is not part of this pipeline", w.to.Name())
		case wired[w.port] || w.port.Wired():
			p.faultf(part, "is wired twice")
		case p.owner(w.port) == nil:
			p.faultf(part, "no stage declares it; add stage.Out to the stage that forwards to it")
		}
		wired[w.port] = true
	}
	for _, c := range p.stages {
		p.checkOuts(c, wired)
	}
}

// checkOuts checks that each port a stage declares leads to a stage of this
// pipeline.
func (p *plan) checkOuts(c *stage.Core, wired map[behaviour.Outlet]bool) {
	for _, port := range c.Outs() {
		if port == nil || wired[port] {
			continue
		}
		if !port.Wired() {
			p.faultf(stageName(c), "port %q is not wired; add pipeline.Wire", port.Name())
		} else if p.index(port.Inlet()) < 0 {
			p.faultf(stageName(c), "port %q leads to %q, which is not part of this pipeline", port.Name(), port.Inlet().Name())
		}
	}
}

// owner returns a stage that declares the port, nil if none does.
func (p *plan) owner(port behaviour.Outlet) *stage.Core {
	i := slices.IndexFunc(p.stages, func(c *stage.Core) bool { return slices.Contains(c.Outs(), port) })
	if i < 0 {
		return nil
	}
	return p.stages[i]
}

// index returns which stage's door an inlet is, -1 if it is none of ours.
func (p *plan) index(in *behaviour.Inlet) int {
	return slices.IndexFunc(p.stages, func(c *stage.Core) bool { return c.Room().Inlet() == in })
}

// adopt takes the rooms into the house and connects the wires. It comes last,
// so that parts of a pipeline that was refused are as they were before.
func (p *plan) adopt(h *room.Host) error {
	for i, c := range p.stages {
		if c.Room().Adopt(h) {
			continue
		}
		for _, d := range p.stages[:i] {
			d.Room().Release(h)
		}
		p.faultf(stageName(c), "is part of another pipeline already")
		return errors.Join(p.faults...)
	}
	for _, w := range p.wires {
		if err := w.connect(); err != nil {
			return err
		}
	}
	return nil
}
