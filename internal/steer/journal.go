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
	changes  ring.Ring[record]
	capacity int
	last     uint64 // the number of the newest entry
}

// record is a change in the journal.
type record struct {
	controller.Change

	varies bool // it is to be amended
}

// NewJournal returns a journal for the given number of changes, or for 256 if
// that is less than one.
func NewJournal(capacity int) *Journal {
	return &Journal{capacity: capacity}
}

// Add records changes. If the journal is full they overwrite the oldest ones.
func (j *Journal) Add(changes ...controller.Change) {
	for _, c := range changes {
		j.add(record{Change: c})
	}
}

// Amend records a change in place of the last one of the same knob, of the same
// stage or pool, and by the same policy, if only such changes came since that
// are amended, too; the entry then has the Before of the replaced one.
// Otherwise Amend is Add. The entry has a new number in both cases. It is for knobs that change again and again, such as
// a visit plan in each round, which would push all other entries out.
func (j *Journal) Amend(c controller.Change) {
	n := j.changes.Len()
	for i := n - 1; i >= 0 && j.changes.At(i).varies; i-- {
		if last := j.changes.At(i); last.What != c.What || last.StageName != c.StageName || last.Policy != c.Policy {
			continue
		}
		c.Before, c.Number = j.changes.At(i).Before, j.next()
		for ; i < n-1; i++ { // the entries are in the order of their time
			*j.changes.At(i) = *j.changes.At(i + 1)
		}
		*j.changes.At(n - 1) = record{c, true}
		return
	}
	j.add(record{c, true})
}

func (j *Journal) add(c record) {
	if j.changes.Len() >= j.size() {
		j.changes.Pop()
	}
	c.Number = j.next()
	j.changes.Push(c)
}

// Last returns the number of the newest entry, 0 if there was none.
func (j *Journal) Last() uint64 { return j.last }

// next numbers an entry.
func (j *Journal) next() uint64 {
	j.last++
	return j.last
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
	j.changes.Each(func(c *record) { entries = append(entries, c.Change) })
	return entries
}
