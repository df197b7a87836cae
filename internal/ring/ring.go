// Package ring is a queue in a growing circle of slots, with two open ends.
//
// It starts small and doubles, so that an idle stage costs little, and it is
// never full: its owner decides on a limit. It shrinks only if its owner calls
// Fit: the ring of an inbox does not, since a queue that was full once often is
// again. It is not safe for concurrent use; an inbox guards its ring with its
// own lock. A slot is cleared when its value is taken, so that the ring keeps
// no reference to it.
package ring

import "slices"

// first is the number of slots that a ring gets with the first value: the ring
// of a stage that has seen few commands stays small.
const first = 1

// Ring is the queue. The zero Ring is empty and ready.
type Ring[T any] struct {
	slots []T // the length is a power of two, or zero
	head  int
	n     int
}

// Len returns how many values are queued.
func (r *Ring[T]) Len() int { return r.n }

// Cap returns how many values have a slot.
func (r *Ring[T]) Cap() int { return len(r.slots) }

// Push adds a value at the back.
func (r *Ring[T]) Push(v T) {
	if r.n == len(r.slots) {
		r.grow(r.n + 1)
	}
	r.slots[(r.head+r.n)&(len(r.slots)-1)] = v
	r.n++
}

// Next adds an empty slot at the back and returns it to be filled. Writing a
// large value there is faster than copying it.
func (r *Ring[T]) Next() *T {
	if r.n == len(r.slots) {
		r.grow(r.n + 1)
	}
	slot := &r.slots[(r.head+r.n)&(len(r.slots)-1)]
	r.n++
	return slot
}

// PushAll adds values at the back, in order.
func (r *Ring[T]) PushAll(vs []T) {
	if r.n+len(vs) > len(r.slots) {
		r.grow(r.n + len(vs))
	}
	r.put((r.head+r.n)&(len(r.slots)-1), vs)
	r.n += len(vs)
}

// PushFront puts values back before all others, keeping their order.
func (r *Ring[T]) PushFront(vs []T) {
	if len(vs) == 0 {
		return
	}
	if r.n+len(vs) > len(r.slots) {
		r.grow(r.n + len(vs))
	}
	r.head = (r.head - len(vs)) & (len(r.slots) - 1)
	r.put(r.head, vs)
	r.n += len(vs)
}

// Pop takes the value at the front. It panics if there is none.
func (r *Ring[T]) Pop() T {
	if r.n == 0 {
		panic("ring: pop of an empty ring")
	}
	var zero T
	v := r.slots[r.head]
	r.slots[r.head] = zero
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.n--
	return v
}

// PopInto moves up to len(dst) values from the front to dst and returns how
// many it moved.
func (r *Ring[T]) PopInto(dst []T) int {
	n := min(len(dst), r.n)
	if n == 0 {
		return 0
	}
	r.take(r.head, dst[:n])
	r.head = (r.head + n) & (len(r.slots) - 1)
	r.n -= n
	return n
}

// PopBackInto moves up to len(dst) values from the back to dst, the last one
// first, and returns how many it moved. Copying the values and then reversing
// them is faster than fetching one after the other, except for very few.
func (r *Ring[T]) PopBackInto(dst []T) int {
	n := min(len(dst), r.n)
	if n == 0 {
		return 0
	}
	r.n -= n
	r.take((r.head+r.n)&(len(r.slots)-1), dst[:n])
	slices.Reverse(dst[:n])
	return n
}

// Remove removes the values for which match returns true, wherever they are,
// and returns them in order. It calls match once for each value.
func (r *Ring[T]) Remove(match func(*T) bool) (removed []T) {
	kept := 0
	for i := range r.n {
		v := r.At(i)
		if match(v) {
			removed = append(removed, *v)
			continue
		}
		if kept < i {
			*r.At(kept) = *v
		}
		kept++
	}
	var none T
	for i := kept; i < r.n; i++ {
		*r.At(i) = none
	}
	r.n = kept
	return removed
}

// take fills dst with the values from a slot on, and clears those slots.
func (r *Ring[T]) take(at int, dst []T) {
	part := r.slots[at:min(at+len(dst), len(r.slots))]
	copy(dst, part)
	clear(part)
	if rest := len(dst) - len(part); rest > 0 {
		copy(dst[len(part):], r.slots[:rest])
		clear(r.slots[:rest])
	}
}

// Each visits all values, from the front to the back.
func (r *Ring[T]) Each(visit func(*T)) {
	for i := range r.n {
		visit(r.At(i))
	}
}

// kept is a number of slots that a ring does not shrink below.
const kept = 1024

// Fit releases memory that a burst has left behind. A ring that shrinks is at
// least half full afterwards. Before it is resized again, at least as many
// values must arrive or leave as were moved, so the cost of moving is
// amortized.
func (r *Ring[T]) Fit() {
	if len(r.slots) > kept && r.n <= len(r.slots)/8 {
		r.resize(max(kept, 2*r.n))
	}
}

// At returns the value at index i from the front, without removing it. It
// panics if there are not that many values.
func (r *Ring[T]) At(i int) *T {
	if i < 0 || i >= r.n {
		panic("ring: index out of range")
	}
	return &r.slots[(r.head+i)&(len(r.slots)-1)]
}

// put copies vs into the slots from index at on, wrapping around if necessary.
func (r *Ring[T]) put(at int, vs []T) {
	n := copy(r.slots[at:], vs)
	copy(r.slots, vs[n:])
}

// grow makes space for need values.
func (r *Ring[T]) grow(need int) { r.resize(max(need, len(r.slots))) }

// resize moves the values into a new slice of slots: the smallest one that has
// room for need values.
func (r *Ring[T]) resize(need int) {
	size := first
	for size < need {
		size *= 2
	}
	slots := make([]T, size)
	end := r.head + r.n
	n := copy(slots, r.slots[r.head:min(end, len(r.slots))])
	copy(slots[n:], r.slots[:max(0, end-len(r.slots))])
	r.slots, r.head = slots, 0
}
