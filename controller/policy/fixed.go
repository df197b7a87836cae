package policy

import "github.com/golda-dev/golda/controller"

// Fixed never changes anything: each stage keeps the workers that it started
// with. It is for pools of a constant size, and for comparing another policy
// with none. It asks for no ticks and costs nothing.
type Fixed struct{}

// Name returns "fixed".
func (Fixed) Name() string { return "fixed" }

// Check returns nil: there are no parameters.
func (Fixed) Check() error { return nil }

// Claims returns nil: Fixed changes no knob, and can be combined with any other
// policy.
func (Fixed) Claims() []controller.Knob { return nil }

// New returns a controller that decides nothing.
func (Fixed) New() controller.Controller { return fixed{} }

type fixed struct{}

func (fixed) Control(controller.Event, *controller.Snapshot, *controller.Decisions) {}
