package policy

import "github.com/golda-dev/golda/controller"

// Fixed never changes anything: each stage keeps the workers that it started
// with. It is for pools of a constant size, and for measuring another policy
// against none. It asks for no ticks and costs nothing.
type Fixed struct{}

// Name is "fixed".
func (Fixed) Name() string { return "fixed" }

// Check returns nil: there is nothing to be wrong.
func (Fixed) Check() error { return nil }

// Claims returns nothing: it turns no knob, and may stand beside any other policy.
func (Fixed) Claims() []controller.Knob { return nil }

// New returns a controller that wants nothing.
func (Fixed) New() controller.Controller { return fixed{} }

type fixed struct{}

func (fixed) Control(controller.Event, *controller.Snapshot, *controller.Decisions) {}
