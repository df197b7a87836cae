package disturb

import (
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/controller"
)

// Shaken is a policy that changes the settings of all stages at random.
type Shaken struct {
	Seed    uint64
	Ordered bool // change batches only, so that commands stay in order
}

// Name returns the policy's name.
func (Shaken) Name() string { return "shaken" }

// Check returns nil.
func (Shaken) Check() error { return nil }

// New returns a controller with its own random numbers.
func (s Shaken) New() controller.Controller {
	return &shaker{rand.New(rand.NewPCG(s.Seed, 99)), s.Ordered}
}

type shaker struct {
	rnd     *rand.Rand
	ordered bool
}

// Control changes the settings of all stages.
func (s *shaker) Control(ev controller.Event, snap *controller.Snapshot, d *controller.Decisions) {
	d.Every(time.Millisecond)
	if ev.Kind == controller.EventStop {
		return
	}
	for i := range snap.Stages {
		id := snap.Stages[i].ID
		if s.ordered {
			controller.KnobBatch.Set(d, id, controller.Batch{Max: 1 + s.rnd.IntN(64)}, "shaken")
			continue
		}
		controller.KnobWorkers.Set(d, id, 1+s.rnd.IntN(8), "shaken")
		switch s.rnd.IntN(4) {
		case 0:
			controller.KnobInstances.Set(d, id, 1+s.rnd.IntN(8), "shaken")
		case 1:
			controller.KnobBatch.Set(d, id, controller.Batch{Max: 1 + s.rnd.IntN(64), Linger: time.Duration(s.rnd.IntN(2)) * time.Millisecond}, "shaken")
		case 2:
			controller.KnobCapacity.Set(d, id, 1+s.rnd.IntN(64), "shaken")
		}
	}
}
