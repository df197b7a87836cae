package steer

import (
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/ring"
)

// defaultJournal is how many changes a journal holds by default.
const defaultJournal = 256

// Journal holds the most recent changes, a fixed number of them. The zero
// Journal is ready and holds 256.
//
// A journal is not safe for concurrent use: its owner locks it, or copies the
// Entries.
type Journal struct {
	changes  ring.Ring[controller.Change]
	capacity int
}

// NewJournal returns a journal for the given number of changes, or for 256 if
// that is less than one.
func NewJournal(capacity int) *Journal {
	return &Journal{capacity: capacity}
}

// Add records changes. If the journal is full they overwrite the oldest ones.
func (j *Journal) Add(changes ...controller.Change) {
	for _, c := range changes {
		j.add(c)
	}
}

// Amend records a change in place of the newest one, if that is of the same
// knob, of the same stage or pool, and by the same policy; the entry then has
// the Before of the replaced one. Otherwise Amend is Add. It is for knobs that
// change again and again, such as a visit plan in each round, which would push
// all other entries out.
func (j *Journal) Amend(c controller.Change) {
	last := j.newest()
	if last == nil || last.What != c.What || last.StageName != c.StageName || last.Policy != c.Policy {
		j.add(c)
		return
	}
	c.Before = last.Before
	*last = c
}

func (j *Journal) newest() *controller.Change {
	if j.changes.Len() == 0 {
		return nil
	}
	return j.changes.At(j.changes.Len() - 1)
}

func (j *Journal) add(c controller.Change) {
	if j.changes.Len() >= j.size() {
		j.changes.Pop()
	}
	j.changes.Push(c)
}

func (j *Journal) size() int {
	if j.capacity < 1 {
		return defaultJournal
	}
	return j.capacity
}

// Entries returns a copy of the recorded changes, oldest first.
func (j *Journal) Entries() []controller.Change {
	entries := make([]controller.Change, 0, j.changes.Len())
	j.changes.Each(func(c *controller.Change) { entries = append(entries, *c) })
	return entries
}
