package queue

// adaptive returns the newest item while more than above wait, and the oldest
// otherwise; with above 0 it is a stack. It ignores keys.
type adaptive[T any] struct {
	above int
	items deque[T] // in the order of arrival
}

func (o *adaptive[T]) len() int                   { return o.items.Len() }
func (o *adaptive[T]) push(item T, _ Key)         { o.items.Push(item) }
func (o *adaptive[T]) pushAll(items []T, _ []Key) { o.items.PushAll(items) }
func (o *adaptive[T]) drop() T                    { return o.items.pop() }
func (o *adaptive[T]) oldest() *T                 { return o.items.At(0) }
func (o *adaptive[T]) each(visit func(*T))        { o.items.Each(visit) }
func (o *adaptive[T]) empty() order[T]            { return &adaptive[T]{above: o.above} }

func (o *adaptive[T]) removeAll(match func(*T) bool) []T { return o.items.removeAll(match) }

func (o *adaptive[T]) popInto(dst []T) int {
	newest := min(len(dst), max(0, o.items.Len()-o.above))
	n := o.items.popBackInto(dst[:newest])
	return n + o.items.popInto(dst[n:])
}

func (o *adaptive[T]) next() *T {
	if o.items.Len() > o.above {
		return o.items.At(o.items.Len() - 1)
	}
	return o.items.At(0)
}
