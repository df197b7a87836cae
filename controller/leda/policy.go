package leda

import (
	"errors"

	"github.com/golda-dev/golda/controller"
)

// New makes a policy of a script. The name is the policy's, for the journal.
//
// The script is called once for each run, with a handle of its own; what it
// registers there is called later.
func New(name string, script func(l *Leda)) controller.Policy {
	// A pointer, for policies are compared and functions cannot be.
	return &policy{name, script}
}

type policy struct {
	name   string
	script func(l *Leda)
}

func (p *policy) Name() string { return p.name }

func (p *policy) Check() error {
	var faults []error
	if p.name == "" {
		faults = append(faults, errors.New("leda: a policy needs a name"))
	}
	if p.script == nil {
		faults = append(faults, errors.New("leda: a policy needs a script"))
	}
	return errors.Join(faults...)
}

func (p *policy) New() controller.Controller { return &run{script: p.script} }

// Claims are the knobs that the 33 methods turn. The others, such as the gate and the
// rate at the entry, are left to whatever policy stands beside.
func (p *policy) Claims() []controller.Knob {
	return []controller.Knob{
		controller.KnobWorkers, controller.KnobPool, controller.KnobDispatch, controller.KnobVisit,
		controller.KnobInstances, controller.KnobPriority, controller.KnobCapacity, controller.KnobEnabled,
	}
}

// run is the controller.
type run struct {
	script func(l *Leda)
	l      *Leda // nil until the script was called to its end
}

// Control calls whatever is due. A script that panics leaves nothing behind, so that
// it can be called again; a callback that panics leaves what it registered, and
// all that was decided is said anew in the next call.
func (r *run) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind == controller.EventStop {
		return
	}
	l := r.l
	if l == nil {
		l = newLeda()
	}
	l.take(s, d)
	defer l.release()
	if r.l == nil {
		r.script(l)
		r.l = l
	} else {
		l.call(ev)
	}
	l.govern(ev)
}
