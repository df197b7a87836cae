package queue

import "slices"

// deque is a growing ring of slots with two open ends. internal/ring is similar but removes items at one end only, and
// never shrinks; a stack that drops its oldest item removes items at both ends. The zero deque is empty and ready to
// use.
type deque[T any] struct {
	slots []T // the length is a power of two, or zero
	head  int
	n     int
}

// slot returns the index of the slot i places behind the front.
func (q *deque[T]) slot(i int) int { return (q.head + i) & (len(q.slots) - 1) }

// at returns the item i places behind the front; it must exist.
func (q *deque[T]) at(i int) *T { return &q.slots[q.slot(i)] }

// each visits all items.
func (q *deque[T]) each(visit func(*T)) {
	for i := range q.n {
		visit(q.at(i))
	}
}

func (q *deque[T]) pushBack(item T) {
	if q.n == len(q.slots) {
		q.resize(grown(len(q.slots), q.n+1))
	}
	q.slots[q.slot(q.n)] = item
	q.n++
}

// pushAll adds items at the back, in order.
func (q *deque[T]) pushAll(items []T) {
	if len(items) == 0 {
		return
	}
	q.reserve(len(items))
	q.put(q.slot(q.n), items)
	q.n += len(items)
}

// pushFront adds items before all others, in order.
func (q *deque[T]) pushFront(items []T) {
	if len(items) == 0 {
		return
	}
	q.reserve(len(items))
	q.head = q.slot(-len(items))
	q.put(q.head, items)
	q.n += len(items)
}

// popFront takes the first item; the deque must not be empty.
func (q *deque[T]) popFront() T {
	var none T
	item := q.slots[q.head]
	q.slots[q.head] = none
	q.head = q.slot(1)
	q.n--
	q.fit()
	return item
}

// popInto moves up to len(dst) items from the front to dst and returns how many.
func (q *deque[T]) popInto(dst []T) int {
	n := min(len(dst), q.n)
	if n == 0 {
		return 0
	}
	q.moveOut(q.head, dst[:n])
	q.head = q.slot(n)
	q.n -= n
	q.fit()
	return n
}

// popBackInto moves up to len(dst) items from the back to dst, the last one first, and returns how many. Copying the
// items and then reversing them is faster than fetching one after the other, except for very few.
func (q *deque[T]) popBackInto(dst []T) int {
	n := min(len(dst), q.n)
	if n == 0 {
		return 0
	}
	q.n -= n
	q.moveOut(q.slot(q.n), dst[:n])
	slices.Reverse(dst[:n])
	q.fit()
	return n
}

// moveOut fills dst with the items from a slot on, and clears those slots, so that they keep no reference.
func (q *deque[T]) moveOut(slot int, dst []T) {
	part := q.slots[slot:min(slot+len(dst), len(q.slots))]
	copy(dst, part)
	clear(part)
	if rest := len(dst) - len(part); rest > 0 {
		copy(dst[len(part):], q.slots[:rest])
		clear(q.slots[:rest])
	}
}

// put copies items into the slots from one on, and continues at the start of the ring if necessary.
func (q *deque[T]) put(slot int, items []T) {
	n := copy(q.slots[slot:], items)
	copy(q.slots, items[n:])
}

func (q *deque[T]) reserve(more int) {
	if need := q.n + more; need > len(q.slots) {
		q.resize(grown(len(q.slots), need))
	}
}

// fit releases memory that a burst has left behind.
func (q *deque[T]) fit() {
	if size := shrunk(len(q.slots), q.n); size < len(q.slots) {
		q.resize(size)
	}
}

// resize moves the items to a store of the given size, in which they fit.
func (q *deque[T]) resize(size int) {
	slots := make([]T, size)
	end := q.head + q.n
	n := copy(slots, q.slots[q.head:min(end, len(q.slots))])
	copy(slots[n:], q.slots[:max(0, end-len(q.slots))])
	q.slots, q.head = slots, 0
}
