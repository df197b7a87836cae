package queue

import "github.com/golda-dev/golda/internal/ring"

// deque is a ring that releases memory which a burst has left behind. The zero
// deque is empty and ready to use.
type deque[T any] struct{ ring.Ring[T] }

// pop takes the first item; the deque must not be empty.
func (q *deque[T]) pop() T {
	item := q.Pop()
	q.Fit()
	return item
}

// popInto moves up to len(dst) items from the front to dst and returns how
// many.
func (q *deque[T]) popInto(dst []T) int {
	n := q.PopInto(dst)
	q.Fit()
	return n
}

// removeAll removes the items for which match returns true, and returns them in
// order.
func (q *deque[T]) removeAll(match func(item *T) bool) []T {
	removed := q.Remove(match)
	q.Fit()
	return removed
}

// popBackInto moves up to len(dst) items from the back to dst, the last one
// first, and returns how many.
func (q *deque[T]) popBackInto(dst []T) int {
	n := q.PopBackInto(dst)
	q.Fit()
	return n
}
