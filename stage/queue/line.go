package queue

// Line is the queue of one stage. The zero Line is empty, ready, and first in, first
// out; see [New] for others. It is not safe for concurrent use, and not to be
// copied once it was used.
//
// What comes out is, first, what was given back, and then what the discipline
// says. Given back is what was taken by [Line.PopInto] and could not be done, because a
// worker crashed: [Line.PushFront].
type Line[T any] struct {
	given deque[T] // given back, before all others
	came  deque[T] // all others, if the discipline is first in, first out
	order order[T] // all others, if it is another; else nil
}

// order keeps the commands of one discipline.
type order[T any] interface {
	len() int
	push(item T, key Key)
	// pushAll is given as many keys as items, or none.
	pushAll(items []T, keys []Key)
	// popInto moves up to len(dst) items to dst.
	popInto(dst []T) int
	// drop takes the item that came first.
	drop() T
	// next is what popInto takes first, oldest what drop takes. There is one.
	next() *T
	oldest() *T
	// each shows all items, in any order.
	each(look func(item *T))
	// empty returns a new order of the kind.
	empty() order[T]
}

// New returns an empty line of the discipline, which has been checked; nil means FIFO.
func New[T any](d Discipline) *Line[T] {
	return &Line[T]{order: lay[T](d)}
}

// lay returns an empty order of the discipline, nil if that is first in, first out.
func lay[T any](d Discipline) order[T] {
	if d == nil {
		return nil
	}
	switch p := d.plan(); p.build {
	case turning:
		return &turn[T]{above: p.above}
	case ranked:
		return newRank[T]()
	default:
		return nil
	}
}

// Len returns how many items are queued, those given back included.
func (l *Line[T]) Len() int {
	n := l.given.n + l.came.n
	if l.order != nil {
		n += l.order.len()
	}
	return n
}

// Push adds an item that came just now, behind all that have equal rights. The key is
// what [Keyed].Key said of it, and 0 if the discipline is not [Keyed].
func (l *Line[T]) Push(item T, key Key) {
	if l.order != nil {
		l.order.push(item, key)
		return
	}
	l.came.pushBack(item)
}

// PushAll adds items that came just now, in order. There are as many keys as items,
// or none, which stands for keys of 0.
func (l *Line[T]) PushAll(items []T, keys []Key) {
	if len(keys) != len(items) && len(keys) > 0 {
		panic("queue: some items have a key and some have none")
	}
	if l.order == nil {
		l.came.pushAll(items)
		return
	}
	l.order.pushAll(items, keys)
}

// PushFront gives items back that were taken. They come out before all others,
// those that come later included, and in this order, whatever the discipline. What was
// given back before comes after them.
//
// Another way would be to put them where they would be had they never been taken. But
// that place is forgotten, and what crashed once had better come to an end
// soon: a stack would bury it.
func (l *Line[T]) PushFront(items []T) { l.given.pushFront(items) }

// PopInto moves up to len(dst) items to dst, in the order in which they are to be
// done, and returns how many.
func (l *Line[T]) PopInto(dst []T) int {
	n := 0
	if l.given.n > 0 {
		n = l.given.popInto(dst)
	}
	if l.order == nil {
		return n + l.came.popInto(dst[n:])
	}
	return n + l.order.popInto(dst[n:])
}

// At returns the item that is to come out after i others, without taking it. It is nil
// if there is none, and also if nobody knows yet which it is: a discipline other than
// FIFO knows only those that were given back and the one that comes after them. So At(0) is
// always known, and what is found once among those given back is found again. The
// pointer is good until the line is next changed. What it points to may be
// changed, but its key stays.
func (l *Line[T]) At(i int) *T {
	if i < 0 {
		return nil
	}
	if i < l.given.n {
		return l.given.at(i)
	}
	i -= l.given.n
	switch {
	case l.order == nil && i < l.came.n:
		return l.came.at(i)
	case l.order != nil && i == 0 && l.order.len() > 0:
		return l.order.next()
	default:
		return nil
	}
}

// Drop takes the item that has waited for longest, for whoever needs its place. It
// panics if the line is empty.
//
// What was given back is older than all others if the discipline is FIFO. In other
// disciplines, where the newest may have been taken first, its age is forgotten, and it is
// spared: it is taken when there is nothing else.
func (l *Line[T]) Drop() T {
	switch {
	case l.order != nil && l.order.len() > 0:
		return l.order.drop()
	case l.given.n > 0:
		return l.given.popFront()
	case l.came.n > 0:
		return l.came.popFront()
	default:
		panic("queue: drop of an empty line")
	}
}

// Oldest returns the item that [Line.Drop] would take, without taking it, and nil if the
// line is empty. The pointer is good until the line is next changed.
func (l *Line[T]) Oldest() *T {
	switch {
	case l.order != nil && l.order.len() > 0:
		return l.order.oldest()
	case l.given.n > 0:
		return l.given.at(0)
	case l.came.n > 0:
		return l.came.at(0)
	default:
		return nil
	}
}

// Count returns how many items are so. It looks at each once, in no order that is promised.
func (l *Line[T]) Count(so func(item *T) bool) (n int) {
	look := func(item *T) {
		if so(item) {
			n++
		}
	}
	l.given.each(look)
	l.came.each(look)
	if l.order != nil {
		l.order.each(look)
	}
	return n
}

// Drain takes everything, in the order in which it would have come out, and lets go
// of the room that it took.
func (l *Line[T]) Drain() []T {
	items := make([]T, l.Len())
	l.PopInto(items)
	l.given, l.came = deque[T]{}, deque[T]{}
	if l.order != nil {
		l.order = l.order.empty()
	}
	return items
}

// Switch goes over to another discipline; nil means FIFO. What is queued is ordered as if
// it had come, in the order in which it did, under the new one; what was
// given back stays before all others. If key is nil, the keys of what is queued
// are 0: a new order by priority then begins with the backlog as it came. A key that
// calls the user's code, as that of [Keyed] does, is called by Switch, perhaps
// under the owner's lock; an owner who does not want that passes nil.
func (l *Line[T]) Switch(d Discipline, key func(item *T) Key) {
	was := Line[T]{came: l.came, order: l.order}
	l.came, l.order = deque[T]{}, lay[T](d)
	if was.order == nil && l.order == nil {
		l.came = was.came
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
