package simulator

import (
	"math/rand/v2"

	"github.com/golda-dev/golda/controller"
)

// door refuses commands of sources, at a stage or at the entry of a process.
type door struct {
	shed controller.Shed
	seen []int // the last priorities, while it sheds
	next int   // where the next one is noted
}

// mostSeen is how many priorities a door notes.
const mostSeen = 1000

func (d *door) set(x controller.Shed) {
	if d.shed = x; x == (controller.Shed{}) {
		d.seen, d.next = nil, 0
	}
}

// refuses decides on a command.
func (d *door) refuses(priority int, chance *rand.Rand) bool {
	if d.shed == (controller.Shed{}) {
		return false
	}
	if len(d.seen) < mostSeen {
		d.seen = append(d.seen, priority)
	} else {
		d.seen[d.next] = priority
		d.next = (d.next + 1) % mostSeen
	}
	share := d.shed.Share(priority)
	return share > 0 && chance.Float64() < share
}
