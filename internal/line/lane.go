package line

import "github.com/golda-dev/golda/internal/rate"

// Lane is the commands of one key. The inbox tells lanes apart by their
// addresses; see [Places].
type Lane struct {
	ring       Ring
	key        uint64
	held       bool         // a worker has its commands, or one of them was given out and has not ended
	blocked    bool         // a command waits for its next try
	reserved   int32        // places that are promised
	again      int32        // commands at the front that were given out and returned: they keep their turn
	waited     bool         // something waits for places
	vacated    bool         // is among the vacated
	permits    *rate.Bucket // nil: there is no rate
	due        int64        // when a dry lane has its next permit
	dryAt      int          // the place among the dry lanes, counted from 1; 0: it is not dry
	counted    int          // in takeable
	in         *laneList    // that it is in, if any
	prev, next *Lane        // in that list
	park       *park        // nil: the key is not parked

	// These are of a fair line.
	weight   int64   // of the key
	deficit  float64 // commands that its present turn has left, and a fraction of one
	turn     uint64  // the number of its last turn
	handlers int32   // that have commands of the key
	delayed  int32   // commands that wait for their next try
	inBatch  bool    // PopInto has taken commands of it, for one handler
}

// park is the state of a lane whose key is parked.
type park struct {
	holds int // how many times it was parked, and not unparked
	first int // commands at the front, which PushFirst has added
}

// laneList is a list of lanes. A lane is in one list at most.
type laneList struct {
	first, last *Lane
	n           int
}

// add appends a lane.
func (l *laneList) add(ln *Lane) {
	if ln.prev, ln.in = l.last, l; ln.prev == nil {
		l.first = ln
	} else {
		ln.prev.next = ln
	}
	l.last = ln
	l.n++
}

// addFirst puts a lane before all others.
func (l *laneList) addFirst(ln *Lane) {
	if ln.next, ln.in = l.first, l; ln.next == nil {
		l.last = ln
	} else {
		ln.next.prev = ln
	}
	l.first = ln
	l.n++
}

// remove removes a lane.
func (l *laneList) remove(ln *Lane) {
	if ln.prev == nil {
		l.first = ln.next
	} else {
		ln.prev.next = ln.next
	}
	if ln.next == nil {
		l.last = ln.prev
	} else {
		ln.next.prev = ln.prev
	}
	ln.prev, ln.next, ln.in = nil, nil, nil
	l.n--
}

// dryLanes is a heap of lanes, the one whose next permit comes first at its
// top.
type dryLanes []*Lane

// Len is for package heap, as are the others.
func (d dryLanes) Len() int { return len(d) }

func (d dryLanes) Less(i, j int) bool {
	return d[i].due < d[j].due || d[i].due == d[j].due && d[i].key < d[j].key
}

func (d dryLanes) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].dryAt, d[j].dryAt = i+1, j+1
}

// Push adds a lane.
func (d *dryLanes) Push(x any) {
	ln := x.(*Lane)
	*d = append(*d, ln)
	ln.dryAt = len(*d)
}

// Pop removes the last lane.
func (d *dryLanes) Pop() any {
	last := len(*d) - 1
	ln := (*d)[last]
	(*d)[last] = nil
	*d, ln.dryAt = (*d)[:last], 0
	return ln
}

// isFirst reports whether the command at an index of the lane was added by
// PushFirst.
func (ln *Lane) isFirst(i int) bool { return ln.park != nil && i < ln.park.first }

// comesBefore reports whether a lane is taken before another one, if no lane is
// ready.
func (ln *Lane) comesBefore(other *Lane) bool {
	if (ln.park == nil) != (other.park == nil) {
		return ln.park == nil
	}
	return ln.key < other.key
}
