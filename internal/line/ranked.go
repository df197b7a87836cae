package line

import (
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage/queue"
)

// ranked is the line of a discipline.
type ranked struct {
	Base

	line *queue.Line[command.Envelope]
	rank func(load any) Rank // nil: the discipline asks nothing
	ring *Ring               // where the commands go when the line is first in, first out again
	keys []queue.Key         // for the next use
}

// rankerOf returns the function that gives a command its rank in the order of
// a discipline; nil if the discipline needs none.
func rankerOf(d queue.Discipline) func(load any) Rank {
	keyed, ok := d.(queue.Keyed)
	if !ok {
		return nil
	}
	return func(load any) Rank { return Rank{Order: int64(keyed.Key(link.Bare(load)))} }
}

// Len returns how many commands wait.
func (l *ranked) Len() int { return l.line.Len() }

// Takeable returns all.
func (l *ranked) Takeable() int { return l.line.Len() }

// Droppable returns all.
func (l *ranked) Droppable() int { return l.line.Len() }

// Ranker returns what the discipline asks.
func (l *ranked) Ranker() func(load any) Rank { return l.rank }

// Push adds a command behind all others of its rank.
func (l *ranked) Push(e command.Envelope, r Rank) { l.line.Push(e, queue.Key(r.Order)) }

// PushAll adds commands in order.
func (l *ranked) PushAll(es []command.Envelope, ranks []Rank) {
	l.keys = l.keys[:0]
	for i := range ranks {
		l.keys = append(l.keys, queue.Key(ranks[i].Order))
	}
	l.line.PushAll(es, l.keys)
}

// Return puts commands back before all others, whatever their ranks.
func (l *ranked) Return(es []command.Envelope, _ []Rank) { l.line.PushFront(es) }

// PopInto gives out commands as the discipline says.
func (l *ranked) PopInto(dst []command.Envelope) int { return l.line.PopInto(dst) }

// Drop removes the command that has waited for longest.
func (l *ranked) Drop() command.Envelope { return l.line.Drop() }

// Oldest returns the command that has waited for longest.
func (l *ranked) Oldest() *command.Envelope { return l.line.Oldest() }

// At returns the command that comes out after i others, if that is known.
func (l *ranked) At(i int) *command.Envelope { return l.line.At(i) }

// Count counts the commands that match.
func (l *ranked) Count(match func(*command.Envelope) bool) int { return l.line.Count(match) }

// Remove removes the commands that match.
func (l *ranked) Remove(match func(*command.Envelope) bool) []command.Envelope {
	return l.line.Remove(match)
}

// Drain removes all commands.
func (l *ranked) Drain() []command.Envelope { return l.line.Drain() }

func (l *ranked) reorder(d queue.Discipline, ask Asker) Line {
	l.rank = rankerOf(d)
	var key func(*command.Envelope) queue.Key
	if l.rank != nil {
		key = func(e *command.Envelope) queue.Key { return queue.Key(ask(l.rank, e.Load).Order) }
	}
	l.line.Switch(d, key)
	if d == nil {
		l.ring.PushAll(l.line.Drain())
		return FIFO(l.ring)
	}
	return l
}
