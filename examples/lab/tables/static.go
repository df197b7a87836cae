package tables

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
)

// static gives each stage a number of workers at the start and changes nothing
// after that, as the SEDA of the dissertation's measurements did. Policy Fixed
// leaves the numbers that the stages have.
type static struct{ each int }

// Name returns the policy with its number, so that lab tells apart candidates
// that differ in nothing else.
func (p static) Name() string { return fmt.Sprintf("static %d", p.each) }

// Check refuses no workers.
func (p static) Check() error {
	if p.each < 1 {
		return fmt.Errorf("static: %d workers for each stage", p.each)
	}
	return nil
}

// Claims returns the number of workers.
func (static) Claims() []controller.Knob { return []controller.Knob{controller.KnobWorkers} }

// New returns the controller.
func (p static) New() controller.Controller { return p }

// Control sets the numbers, once.
func (p static) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	if ev.Kind != controller.EventStart {
		return
	}
	for i := range s.Stages {
		controller.KnobWorkers.Set(d, controller.StageID(i), p.each, "the same for each stage")
	}
}

// listed is how often the listing of work stealing looks for a victim.
const listed = 10 * time.Second

// faster10 returns the period of work stealing where time passes so many times
// faster.
func faster10(faster float64) time.Duration {
	return max(time.Duration(float64(listed)/faster), time.Millisecond)
}
