package queue

// turn gives out the newest item while more than above wait, and the oldest otherwise:
// with 0 it is a stack. It cares for no keys.
type turn[T any] struct {
	above int
	items deque[T] // as they came
}

func (o *turn[T]) len() int                   { return o.items.n }
func (o *turn[T]) push(item T, _ Key)         { o.items.pushBack(item) }
func (o *turn[T]) pushAll(items []T, _ []Key) { o.items.pushAll(items) }
func (o *turn[T]) drop() T                    { return o.items.popFront() }
func (o *turn[T]) oldest() *T                 { return o.items.at(0) }
func (o *turn[T]) each(look func(*T))         { o.items.each(look) }
func (o *turn[T]) empty() order[T]            { return &turn[T]{above: o.above} }

func (o *turn[T]) popInto(dst []T) int {
	newest := min(len(dst), max(0, o.items.n-o.above))
	n := o.items.popBackInto(dst[:newest])
	return n + o.items.popInto(dst[n:])
}

func (o *turn[T]) next() *T {
	if o.items.n > o.above {
		return o.items.at(o.items.n - 1)
	}
	return o.items.at(0)
}
