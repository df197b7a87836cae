package queue

// Line is the queue of one stage. The zero Line is empty, ready to use, and
// first in, first out; see [New] for other disciplines. It is not safe for
// concurrent use and must not be copied after first use.
//
// Returned items come out first, then all others as the discipline says.
// Returned items were taken by [Line.PopInto] but could not be processed
// because a worker crashed, and were put back by [Line.PushFront].
type Line[T any] struct {
	returned deque[T] // put back by PushFront; they come out first
	arrived  deque[T] // all others, if the discipline is first in, first out
	order    order[T] // all others, if it is another discipline; else nil
}

// order keeps the commands of one discipline.
type order[T any] interface {
	len() int
	push(item T, key Key)
	// pushAll takes as many keys as items, or none.
	pushAll(items []T, keys []Key)
	// popInto moves up to len(dst) items to dst.
	popInto(dst []T) int
	// drop takes the item that arrived first.
	drop() T
	// next returns the item that popInto takes first, oldest the item that drop
	// takes. The order must not be empty.
	next() *T
	oldest() *T
	// each visits all items, in any order.
	each(visit func(item *T))
	// removeAll removes the items for which match returns true, and returns
	// them in the order of arrival.
	removeAll(match func(item *T) bool) []T
	// empty returns a new, empty order of the same kind.
	empty() order[T]
}

// New returns an empty line of the discipline, which must be valid; nil means
// FIFO.
func New[T any](d Discipline) *Line[T] {
	return &Line[T]{order: newOrder[T](d)}
}

// newOrder returns an empty order of the discipline, nil if that is first in,
// first out.
func newOrder[T any](d Discipline) order[T] {
	if d == nil {
		return nil
	}
	switch p := d.plan(); p.build {
	case turning:
		return &adaptive[T]{above: p.above}
	case ranked:
		return newRank[T](p.every)
	default:
		return nil
	}
}

// Len returns how many items are queued, including returned ones.
func (l *Line[T]) Len() int {
	n := l.returned.Len() + l.arrived.Len()
	if l.order != nil {
		n += l.order.len()
	}
	return n
}

// Push adds an item behind all items of the same rank. The key is the result of
// [Keyed].Key, or 0 if the discipline is not [Keyed].
func (l *Line[T]) Push(item T, key Key) {
	if l.order != nil {
		l.order.push(item, key)
		return
	}
	l.arrived.Push(item)
}

// PushAll adds items in order. There are as many keys as items, or none, which
// means keys of 0.
func (l *Line[T]) PushAll(items []T, keys []Key) {
	if len(keys) != len(items) && len(keys) > 0 {
		panic("queue: some items have a key and some have none")
	}
	if l.order == nil {
		l.arrived.PushAll(items)
		return
	}
	l.order.pushAll(items, keys)
}

// PushFront puts back items that were taken. They come out before all other
// items, including later ones, and in this order, whatever the discipline.
// Items that were returned earlier come out after them.
//
// The alternative would be to restore the place that the items had before. But
// that place is no longer known, and a command that crashed once should be
// completed soon: a stack would bury it.
func (l *Line[T]) PushFront(items []T) { l.returned.PushFront(items) }

// PopInto moves up to len(dst) items to dst, in the order in which they must be
// processed, and returns how many.
func (l *Line[T]) PopInto(dst []T) int {
	n := 0
	if l.returned.Len() > 0 {
		n = l.returned.popInto(dst)
	}
	if l.order == nil {
		return n + l.arrived.popInto(dst[n:])
	}
	return n + l.order.popInto(dst[n:])
}

// At returns the item that will come out after i others, without taking it. It
// returns nil if there is no such item, and also if that item is not yet known:
// a discipline other than FIFO knows only the returned items and the item that
// comes out next after them. So At(0) is always known, and the place of a
// returned item does not change until the line does. The pointer is valid until
// the next change of the line. The caller may change the item, but its key
// stays.
func (l *Line[T]) At(i int) *T {
	if i < 0 {
		return nil
	}
	if i < l.returned.Len() {
		return l.returned.At(i)
	}
	i -= l.returned.Len()
	switch {
	case l.order == nil && i < l.arrived.Len():
		return l.arrived.At(i)
	case l.order != nil && i == 0 && l.order.len() > 0:
		return l.order.next()
	default:
		return nil
	}
}

// Drop takes the item that has waited for longest, to free its slot. It panics
// if the line is empty.
//
// If the discipline is FIFO, returned items are older than all others. In other
// disciplines, which may have taken the newest first, the age of a returned
// item is not known. Drop spares those items and takes one only if there are no
// others.
func (l *Line[T]) Drop() T {
	switch {
	case l.order != nil && l.order.len() > 0:
		return l.order.drop()
	case l.returned.Len() > 0:
		return l.returned.pop()
	case l.arrived.Len() > 0:
		return l.arrived.pop()
	default:
		panic("queue: drop of an empty line")
	}
}

// Oldest returns the item that [Line.Drop] would take, without taking it, and
// nil if the line is empty. The pointer is valid until the next change of the
// line.
func (l *Line[T]) Oldest() *T {
	switch {
	case l.order != nil && l.order.len() > 0:
		return l.order.oldest()
	case l.returned.Len() > 0:
		return l.returned.At(0)
	case l.arrived.Len() > 0:
		return l.arrived.At(0)
	default:
		return nil
	}
}

// Count returns the number of items for which match returns true. It visits
// each item once, in no particular order.
func (l *Line[T]) Count(match func(item *T) bool) (n int) {
	visit := func(item *T) {
		if match(item) {
			n++
		}
	}
	l.returned.Each(visit)
	l.arrived.Each(visit)
	if l.order != nil {
		l.order.each(visit)
	}
	return n
}

// Remove removes the items for which match returns true, wherever they are, and
// returns them: the returned items, then the others in the order of their
// arrival. It calls match once for each item. The order of the remaining items
// stays as it is.
func (l *Line[T]) Remove(match func(item *T) bool) []T {
	removed := append(l.returned.removeAll(match), l.arrived.removeAll(match)...)
	if l.order != nil {
		removed = append(removed, l.order.removeAll(match)...)
	}
	return removed
}

// Drain takes all items, in the order in which they would have come out, and
// releases the memory of the line.
func (l *Line[T]) Drain() []T {
	items := make([]T, l.Len())
	l.PopInto(items)
	l.returned, l.arrived = deque[T]{}, deque[T]{}
	if l.order != nil {
		l.order = l.order.empty()
	}
	return items
}

// Switch changes the discipline; nil means FIFO. The queued items are reordered
// as if they had arrived under the new discipline, in the order of their
// arrival. Returned items still come out first. If key is nil, the keys of the
// queued items are 0: a new order by priority then starts with the backlog in
// its order of arrival. If key calls user code, as [Keyed] does, Switch calls
// that code, perhaps while the owner holds its lock. An owner that must avoid
// that passes nil.
func (l *Line[T]) Switch(d Discipline, key func(item *T) Key) {
	was := Line[T]{arrived: l.arrived, order: l.order}
	l.arrived, l.order = deque[T]{}, newOrder[T](d)
	if was.order == nil && l.order == nil {
		l.arrived = was.arrived
		return
	}
	for range was.Len() {
		item := was.Drop()
		var k Key
		if key != nil {
			k = key(&item)
		}
		l.Push(item, k)
	}
}
