package control

import (
	"cmp"
	"slices"

	"github.com/golda-dev/golda/controller"
)

// decided counts all changes of knobs since the start, by the owner of the knob
// and the knob. The journal forgets changes; decided does not.
type decided map[turned]uint64

type turned struct{ owner, knob string }

// mostTurned is how many knobs are counted each by itself: stages that are added
// and removed again and again have ever new names. Further ones are one.
const mostTurned = 1 << 14

// others is the owner of the knobs beyond mostTurned.
const others = "others"

// count counts a change.
func (d *decided) count(ch controller.Change) {
	if ch.Stays() {
		return
	}
	if *d == nil {
		*d = decided{}
	}
	t := turned{ch.StageName, ch.What.String()}
	if _, known := (*d)[t]; !known && len(*d) >= mostTurned {
		t.owner = others
	}
	(*d)[t]++
}

// list returns the counts in the order of the names of the owners and the knobs.
func (d decided) list() []controller.Decided {
	all := make([]controller.Decided, 0, len(d))
	for t, n := range d {
		all = append(all, controller.Decided{Owner: t.owner, Knob: t.knob, Changes: n})
	}
	slices.SortFunc(all, func(a, b controller.Decided) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Knob, b.Knob))
	})
	return all
}
