package line

import (
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/queue"
)

// fifo is a line over its owner's ring.
type fifo struct {
	Base

	*Ring
}

// FIFO returns the line that is first in, first out, over a ring.
func FIFO(r *Ring) Line { return fifo{Ring: r} }

// Asker asks a command for its rank by the function of a line, which is code of
// users.
type Asker func(ranker func(load any) Rank, load any) Rank

// Reorder returns the line in the order of a discipline; nil is first in, first
// out. If the discipline needs ranks, the commands that wait are asked for
// them. A line that has an order of its own stays as it is, and ok is false.
func Reorder(l Line, d queue.Discipline, ask Asker) (reordered Line, ok bool) {
	o, ok := l.(interface {
		reorder(d queue.Discipline, ask Asker) Line
	})
	if !ok {
		return l, false
	}
	return o.reorder(d, ask), true
}

// Takeable returns all.
func (l fifo) Takeable() int { return l.Len() }

// Droppable returns all.
func (l fifo) Droppable() int { return l.Len() }

// Push adds a command.
func (l fifo) Push(e command.Envelope, _ Rank) { l.Ring.Push(e) }

// PushAll adds commands.
func (l fifo) PushAll(es []command.Envelope, _ []Rank) { l.Ring.PushAll(es) }

// Return puts commands back before all others.
func (l fifo) Return(es []command.Envelope, _ []Rank) { l.PushFront(es) }

// Drop removes the first command.
func (l fifo) Drop() command.Envelope { return l.Pop() }

// Oldest returns the first command.
func (l fifo) Oldest() *command.Envelope { return l.At(0) }

// Count counts the commands that match.
func (l fifo) Count(match func(*command.Envelope) bool) int { return count(l.Ring, match) }

// Drain empties the ring.
func (l fifo) Drain() []command.Envelope { return drain(l.Ring) }

func (l fifo) reorder(d queue.Discipline, ask Asker) Line {
	if d == nil {
		return l
	}
	to := &ranked{line: queue.New[command.Envelope](nil), ring: l.Ring}
	es := drain(l.Ring)
	*l.Ring = Ring{}
	given := givenBack(es)
	to.line.PushAll(es[given:], nil)
	to.line.PushFront(es[:given])
	return to.reorder(d, ask)
}

// givenBack is how many commands at the front were given back in packs after a
// crash: they stay before all others in any order.
func givenBack(es []command.Envelope) (n int) {
	for n < len(es) && es[n].Pack() > 0 {
		n++
	}
	return n
}
