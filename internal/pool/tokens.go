package pool

import "slices"

// token is an inbox's place in the shared queue.
type token[M, I any] struct {
	of       *Binding[M, I]
	era      uint32
	priority int64
	seq      uint64
}

// tokens is the shared queue: by priority, then first in, first out. It is not
// a container/heap, which allocates an interface value for each token.
type tokens[M, I any] struct {
	heap []token[M, I]
	seq  uint64 // of the token that was added last
}

func (q *tokens[M, I]) len() int { return len(q.heap) }

// before reports whether the token at i comes before the one at j.
func (q *tokens[M, I]) before(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.priority > b.priority || a.priority == b.priority && a.seq < b.seq
}

func (q *tokens[M, I]) push(of *Binding[M, I], era uint32, priority int64) {
	q.seq++
	q.heap = append(q.heap, token[M, I]{of, era, priority, q.seq})
	for i := len(q.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.before(i, parent) {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *tokens[M, I]) pop() token[M, I] {
	first, last := q.heap[0], len(q.heap)-1
	q.heap[0], q.heap[last] = q.heap[last], token[M, I]{}
	q.heap = q.heap[:last]
	q.sink(0)
	return first
}

func (q *tokens[M, I]) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.heap) {
			return
		}
		if child+1 < len(q.heap) && q.before(child+1, child) {
			child++
		}
		if !q.before(child, i) {
			return
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
}

// drop removes all tokens of an inbox.
func (q *tokens[M, I]) drop(b *Binding[M, I]) {
	q.heap = slices.DeleteFunc(q.heap, func(t token[M, I]) bool { return t.of == b })
	for i := len(q.heap)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
}
