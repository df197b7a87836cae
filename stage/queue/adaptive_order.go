package queue

// adaptive returns the newest item while more than above wait, and the oldest otherwise; with above 0 it is a stack. It
// ignores keys.
type adaptive[T any] struct {
	above int
	items deque[T] // in the order of arrival
}

func (o *adaptive[T]) len() int                   { return o.items.n }
func (o *adaptive[T]) push(item T, _ Key)         { o.items.pushBack(item) }
func (o *adaptive[T]) pushAll(items []T, _ []Key) { o.items.pushAll(items) }
func (o *adaptive[T]) drop() T                    { return o.items.popFront() }
func (o *adaptive[T]) oldest() *T                 { return o.items.at(0) }
func (o *adaptive[T]) each(visit func(*T))        { o.items.each(visit) }
func (o *adaptive[T]) empty() order[T]            { return &adaptive[T]{above: o.above} }

func (o *adaptive[T]) popInto(dst []T) int {
	newest := min(len(dst), max(0, o.items.n-o.above))
	n := o.items.popBackInto(dst[:newest])
	return n + o.items.popInto(dst[n:])
}

func (o *adaptive[T]) next() *T {
	if o.items.n > o.above {
		return o.items.at(o.items.n - 1)
	}
	return o.items.at(0)
}
