package line

import "slices"

// KeyLoad is how many commands of one key wait at a line.
type KeyLoad struct {
	Key     uint64 // as the line knows it: a hash
	Waiting int
	AtWork  bool // a worker has commands of the key
	Parked  bool // see [Parks]
	First   any  // the command that comes first, as users see it; nil if it was not asked for
}

// mostSlots is how many slots of the table of lanes one call of Hottest reads.
// At most half of them have a lane.
const mostSlots = 1 << 12

// Hottest returns the keys of which most commands wait, the largest number
// first, with their first commands if these are asked for. It reads a bounded
// part of the table of lanes, which begins at a place that the caller draws by
// chance. Whole reports whether that was all of the table; if it was not, the
// keys are those of a random part. A line without keys has none.
func Hottest(l Line, most int, from uint64, commands bool) (top []KeyLoad, whole bool) {
	var table *laneTable
	if f, ok := l.(*fair); ok {
		table = &f.byKey
	} else if lanes := lanesOf(l); lanes != nil {
		table = &lanes.byKey
	} else {
		return nil, true
	}
	hot := table.hottest(most, from)
	for _, ln := range hot {
		k := KeyLoad{Key: ln.key, Waiting: ln.ring.Len(), AtWork: ln.held || ln.handlers > 0, Parked: ln.park != nil}
		if commands {
			k.First = ln.ring.At(0).Command()
		}
		top = append(top, k)
	}
	return top, len(table.slots) <= mostSlots
}

// hottest returns the lanes of a bounded part of the table that have most
// commands, of the ones with a key. As few are asked for, they are kept in order
// and a lane mostly costs one comparison: the caller holds the lock of an inbox.
func (t *laneTable) hottest(most int, from uint64) (hot []*Lane) {
	size := len(t.slots)
	for i := range min(size, mostSlots) {
		ln := t.slots[(int(from)+i)&(size-1)]
		if ln == nil || ln.ring.Len() == 0 || ln.key == NoKey || len(hot) == most && !ln.isHotter(hot[most-1]) {
			continue
		}
		if len(hot) == most {
			hot = hot[:most-1]
		}
		at := slices.IndexFunc(hot, ln.isHotter)
		if at < 0 {
			at = len(hot)
		}
		hot = slices.Insert(hot, at, ln)
	}
	return hot
}

// isHotter reports whether more commands wait at a lane than at another one.
func (ln *Lane) isHotter(other *Lane) bool {
	a, b := ln.ring.Len(), other.ring.Len()
	return a > b || a == b && ln.key < other.key
}
