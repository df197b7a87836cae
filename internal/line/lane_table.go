package line

import "iter"

// laneTable has the lanes by their keys. It is a hash table with linear
// probing and one multiplication, since the keys are hashes already.
// Each command of a keyed stage is looked up here, under the inbox's lock, and
// a Go map, which hashes the key again, takes three times as long; see
// BenchmarkLaneTable.
//
// The zero value is an empty table. At most half of its slots are used, and at
// least an eighth, so that a burst of keys leaves no large table behind.
type laneTable struct {
	slots []*Lane // a power of two of them, or none
	n     int
}

// leastLanes is how many slots a table has at least.
const leastLanes = 8

// home returns the slot at which the search for a key begins.
func (t *laneTable) home(k uint64) int { return int(k*0x9e3779b97f4a7c15>>32) & (len(t.slots) - 1) }

// next returns the slot after a slot.
func (t *laneTable) next(i int) int { return (i + 1) & (len(t.slots) - 1) }

// get returns the lane of a key; nil if there is none.
func (t *laneTable) get(k uint64) *Lane {
	if t.n == 0 {
		return nil
	}
	for i := t.home(k); ; i = t.next(i) {
		if ln := t.slots[i]; ln == nil || ln.key == k {
			return ln
		}
	}
}

// add adds a lane. The table must have none of its key.
func (t *laneTable) add(ln *Lane) {
	if 2*(t.n+1) > len(t.slots) {
		t.resize(max(2*len(t.slots), leastLanes))
	}
	t.put(ln)
	t.n++
}

// put puts a lane into its slot. There is a free one.
func (t *laneTable) put(ln *Lane) {
	i := t.home(ln.key)
	for t.slots[i] != nil {
		i = t.next(i)
	}
	t.slots[i] = ln
}

// resize moves all lanes to a new table.
func (t *laneTable) resize(slots int) {
	old := t.slots
	t.slots = make([]*Lane, slots)
	for _, ln := range old {
		if ln != nil {
			t.put(ln)
		}
	}
}

// delete removes the lane of a key, if there is one.
func (t *laneTable) delete(k uint64) {
	if t.get(k) == nil {
		return
	}
	i := t.home(k)
	for t.slots[i].key != k {
		i = t.next(i)
	}
	t.n--
	t.slots[i] = nil
	for j := t.next(i); t.slots[j] != nil; j = t.next(j) { // lanes behind may have been put there because the slot was used
		if ln := t.slots[j]; t.between(t.home(ln.key), i, j) {
			t.slots[i], t.slots[j] = ln, nil
			i = j
		}
	}
	if len(t.slots) > leastLanes && 8*t.n < len(t.slots) {
		t.resize(len(t.slots) / 2)
	}
}

// between reports whether slot i is not before home, on the way from home to j.
func (t *laneTable) between(home, i, j int) bool {
	mask := len(t.slots) - 1
	return (i-home)&mask <= (j-home)&mask
}

// all returns the lanes in no order. The table may be changed meanwhile: the
// lanes are those at the start.
func (t *laneTable) all() iter.Seq[*Lane] {
	lanes := make([]*Lane, 0, t.n)
	for _, ln := range t.slots {
		if ln != nil {
			lanes = append(lanes, ln)
		}
	}
	return func(yield func(*Lane) bool) {
		for _, ln := range lanes {
			if !yield(ln) {
				return
			}
		}
	}
}
