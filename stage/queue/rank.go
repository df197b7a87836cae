package queue

// rank returns the item with the smallest key, and among equal keys the item
// that arrived first; and now and then the oldest of all, if it is told to. It is a binary heap of small entries. The items
// themselves stay in slots, which a linked list connects in the order of
// arrival, so that the oldest is found at once.
type rank[T any] struct {
	items []T     // by slot
	nodes []node  // by slot
	heap  []entry // no entry comes before its parent, which is at about half its index
	seq   uint64  // of the next item

	every int // of so many items that are taken, one is the oldest; 0: none is
	taken int // items since the oldest was taken in its turn

	first, last int32 // slots of the list, or nowhere
	free        int32 // the first free slot; the nodes link the others
}

// nowhere marks the end of a list.
const nowhere = -1

// entry is an item in the heap.
type entry struct {
	key  Key
	seq  uint64
	slot int32
}

// before reports whether e comes out before other: by key, then by arrival.
func (e entry) before(other entry) bool {
	return e.key < other.key || e.key == other.key && e.seq < other.seq
}

// node links a slot to its neighbours in the list and to its entry in the heap.
type node struct {
	prev, next int32
	at         int32
}

func newRank[T any](every int) *rank[T] {
	return &rank[T]{first: nowhere, last: nowhere, free: nowhere, every: every}
}

func (o *rank[T]) len() int        { return len(o.heap) }
func (o *rank[T]) next() *T        { return &o.items[o.heap[o.turn()].slot] }
func (o *rank[T]) oldest() *T      { return &o.items[o.first] }
func (o *rank[T]) empty() order[T] { return newRank[T](o.every) }

func (o *rank[T]) each(visit func(*T)) {
	for slot := o.first; slot != nowhere; slot = o.nodes[slot].next {
		visit(&o.items[slot])
	}
}

func (o *rank[T]) push(item T, key Key) {
	if o.free == nowhere {
		o.resize(grown(len(o.items), len(o.heap)+1))
	}
	slot := o.append(item)
	o.heap = append(o.heap, entry{})
	o.rise(len(o.heap)-1, entry{key: key, seq: o.seq, slot: slot})
	o.seq++
}

func (o *rank[T]) pushAll(items []T, keys []Key) {
	for i, item := range items {
		var key Key
		if len(keys) > 0 {
			key = keys[i]
		}
		o.push(item, key)
	}
}

func (o *rank[T]) popInto(dst []T) int {
	n := min(len(dst), len(o.heap))
	for i := range n {
		at := o.turn()
		if o.taken++; o.taken >= o.every {
			o.taken = 0
		}
		dst[i] = o.remove(at)
	}
	o.fit()
	return n
}

// turn returns the place in the heap of the item that is taken next: the first,
// or the oldest if it is the turn of that.
func (o *rank[T]) turn() int {
	if o.every > 0 && o.taken == o.every-1 {
		return int(o.nodes[o.first].at)
	}
	return 0
}

func (o *rank[T]) drop() T {
	item := o.remove(int(o.nodes[o.first].at))
	o.fit()
	return item
}

func (o *rank[T]) removeAll(match func(*T) bool) (removed []T) {
	for slot := o.first; slot != nowhere; {
		k := o.nodes[slot]
		if match(&o.items[slot]) {
			removed = append(removed, o.remove(int(k.at)))
		}
		slot = k.next
	}
	o.fit()
	return removed
}

// append puts an item into a free slot, at the end of the list.
func (o *rank[T]) append(item T) (slot int32) {
	slot = o.free
	o.free = o.nodes[slot].next
	o.items[slot] = item
	o.nodes[slot] = node{prev: o.last, next: nowhere}
	if o.last == nowhere {
		o.first = slot
	} else {
		o.nodes[o.last].next = slot
	}
	o.last = slot
	return slot
}

// release frees a slot and returns its item.
func (o *rank[T]) release(slot int32) T {
	var none T
	item := o.items[slot]
	o.items[slot] = none
	o.unlink(o.nodes[slot])
	o.nodes[slot].next = o.free
	o.free = slot
	return item
}

// unlink removes a node from the list by linking its neighbours.
func (o *rank[T]) unlink(k node) {
	if k.prev == nowhere {
		o.first = k.next
	} else {
		o.nodes[k.prev].next = k.next
	}
	if k.next == nowhere {
		o.last = k.prev
	} else {
		o.nodes[k.next].prev = k.prev
	}
}

// remove takes an entry out of the heap and returns its item. The last entry
// takes its place, and rises or sinks from there.
func (o *rank[T]) remove(at int) T {
	slot := o.heap[at].slot
	end := len(o.heap) - 1
	last := o.heap[end]
	o.heap = o.heap[:end]
	switch {
	case at == end:
	case at > 0 && last.before(o.heap[(at-1)/2]):
		o.rise(at, last)
	default:
		o.sink(at, last)
	}
	return o.release(slot)
}

// rise places an entry at an index, or above it if parents come after the
// entry.
func (o *rank[T]) rise(at int, e entry) {
	for at > 0 {
		parent := (at - 1) / 2
		if !e.before(o.heap[parent]) {
			break
		}
		o.set(at, o.heap[parent])
		at = parent
	}
	o.set(at, e)
}

// sink places an entry at an index, or below it if children come before the
// entry.
func (o *rank[T]) sink(at int, e entry) {
	for {
		child := 2*at + 1
		if child >= len(o.heap) {
			break
		}
		if right := child + 1; right < len(o.heap) && o.heap[right].before(o.heap[child]) {
			child = right
		}
		if !o.heap[child].before(e) {
			break
		}
		o.set(at, o.heap[child])
		at = child
	}
	o.set(at, e)
}

func (o *rank[T]) set(at int, e entry) {
	o.heap[at] = e
	o.nodes[e.slot].at = int32(at)
}

// fit releases memory that a burst has left behind.
func (o *rank[T]) fit() {
	if size := shrunk(len(o.items), len(o.heap)); size < len(o.items) {
		o.resize(size)
	}
}

// resize moves the items, in the order of arrival, to the first slots of a
// store of the given size, in which they fit.
func (o *rank[T]) resize(size int) {
	items, nodes := make([]T, size), make([]node, size)
	heap := append(make([]entry, 0, size), o.heap...)
	var n int32
	for slot := o.first; slot != nowhere; slot = o.nodes[slot].next {
		at := o.nodes[slot].at
		heap[at].slot = n
		items[n] = o.items[slot]
		nodes[n] = node{prev: n - 1, next: n + 1, at: at}
		n++
	}
	o.first, o.last = nowhere, n-1 // n-1 is nowhere if there are no items
	if n > 0 {
		o.first = 0
		nodes[n-1].next = nowhere
	}
	o.free = chain(nodes, n)
	o.items, o.nodes, o.heap = items, nodes, heap
}

// chain links the slots from one on as free slots and returns the first.
func chain(nodes []node, from int32) int32 {
	free := int32(nowhere)
	for slot := int32(len(nodes)) - 1; slot >= from; slot-- {
		nodes[slot].next = free
		free = slot
	}
	return free
}
