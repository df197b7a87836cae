package stage

import "sync/atomic"

// recent is the entries of a keyed stage that were used last, by the hashes of
// their keys. A handler that finds the entry of its key here needs no lock and
// no lookup in a map; BenchmarkKeys measures that. It is a cache: a slot has
// the entry of one of the keys that belong there, and if it is another one the
// handler asks the table.
//
// An entry that the table does not have any more is never idle, so no handler
// can acquire it. That is not so if instances are passivated, when it also
// matters which was used last: then nothing is remembered.
type recent[E any] struct {
	slots atomic.Pointer[[]atomic.Pointer[E]] // a power of two of them; nil: none
}

const (
	leastRecent = 1 << 6
	mostRecent  = 1 << 16 // half a MiB
)

// at returns the slot of the keys with a hash; nil if there are no slots.
func (r *recent[E]) at(hash uint64) *atomic.Pointer[E] {
	slots := r.slots.Load()
	if slots == nil {
		return nil
	}
	return &(*slots)[hash>>8&uint64(len(*slots)-1)]
}

// fit makes slots for a number of entries: four for each, so that few entries
// share one. The new slots are empty.
func (r *recent[E]) fit(entries int) {
	old, n := r.slots.Load(), leastRecent
	if old != nil {
		n = 2 * len(*old)
	}
	if old != nil && (4*entries <= len(*old) || n > mostRecent) {
		return
	}
	slots := make([]atomic.Pointer[E], n)
	r.slots.CompareAndSwap(old, &slots) // if another goroutine was faster, its slots will do
}

// forget forgets all entries.
func (r *recent[E]) forget() { r.slots.Store(nil) }
