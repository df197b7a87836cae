package leda

import (
	"errors"

	"github.com/golda-dev/golda/controller"
)

// New makes a script a policy. The name is the policy's, for the journal.
//
// The script is called once for each run, with a handle of its own; the
// functions that it registers are called later.
func New(name string, script func(l *Leda)) controller.Policy {
	// A pointer, because policies are compared and functions are not
	// comparable.
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

// Claims returns the knobs that the 33 methods change. The others, such as the
// gate and the rate at the entry, are left to other policies.
func (p *policy) Claims() []controller.Knob {
	return []controller.Knob{
		controller.KnobWorkers, controller.KnobPool, controller.KnobDispatch, controller.KnobVisit,
		controller.KnobInstances, controller.KnobPriority, controller.KnobCapacity, controller.KnobEnabled,
	}
}

// run is the controller of one run.
type run struct {
	script func(l *Leda)
	l      *Leda // nil until the script has returned
}

// Control calls all that is due. The state of a script that panics is dropped,
// so that the script can be called again. A callback that panics leaves its
// registrations, and all decisions are repeated in the next call.
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
