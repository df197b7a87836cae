package policy

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// classes is a gate that admits a share of the commands of each class. The
// controller sets the shares while commands are admitted, so all is atomic.
type classes struct{ all []class }

// class is the commands of one priority.
type class struct {
	came    atomic.Uint64 // commands
	refused atomic.Uint64 // the share that is refused, as the bits of a float64
	seen    uint64        // of came; the controller's
}

// String is for the journal.
func (g *classes) String() string { return fmt.Sprintf("%d classes", len(g.all)) }

// errClass is why a command is refused.
var errClass = errors.New("the rate is for commands of a higher priority")

// Admit admits a command if it is one of its class' share: of the commands of a
// class, the refused ones are spread evenly.
func (g *classes) Admit(cmd any, _, _ int) error {
	priority := 0
	if p, ok := cmd.(interface{ Priority() int }); ok {
		priority = p.Priority()
	}
	c := &g.all[min(max(priority, 0), len(g.all)-1)]
	n := float64(c.came.Add(1))
	refused := math.Float64frombits(c.refused.Load())
	if math.Floor(n*refused) != math.Floor((n-1)*refused) {
		return errClass
	}
	return nil
}

// share gives a rate to the classes, the highest first, as far as commands of
// them came in the time that has passed; 0 is no limit.
func (g *classes) share(rate, passed float64) {
	left := rate
	for i := len(g.all) - 1; i >= 0; i-- {
		c := &g.all[i]
		came := c.came.Load()
		asked := float64(came-c.seen) / max(passed, 1e-9)
		c.seen = came
		refused := 0.0
		switch {
		case rate == 0:
		case asked > left:
			refused = 1 - left/asked
		case left <= 0:
			refused = 1
		}
		c.refused.Store(math.Float64bits(refused))
		left = max(left-asked, 0)
	}
}
