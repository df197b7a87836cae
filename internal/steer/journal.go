package steer

import "github.com/golda-dev/golda/controller"

// defaultJournal is how many changes a journal holds by default.
const defaultJournal = 256

// Journal holds the most recent changes, a fixed number of them. The zero Journal is ready and holds 256.
//
// A journal is not safe for concurrent use: its owner locks it, or copies the Entries.
type Journal struct {
	ring     []controller.Change
	capacity int
	oldest   int // index of the oldest entry once the ring is full
	dropped  uint64
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

// Amend records a change in place of the newest one, if that is of the same knob, of the same stage or pool, and by the
// same policy; the entry then has the Before of the replaced one. Otherwise Amend is Add. It is for knobs that change
// again and again, such as a visit plan in each round, which would push all other entries out.
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
	if len(j.ring) == 0 {
		return nil
	}
	return &j.ring[(j.oldest+len(j.ring)-1)%len(j.ring)]
}

// add lets the ring grow as it fills, since most pipelines change little.
func (j *Journal) add(c controller.Change) {
	if len(j.ring) < j.size() {
		j.ring = append(j.ring, c)
		return
	}
	j.ring[j.oldest] = c
	j.oldest = (j.oldest + 1) % len(j.ring)
	j.dropped++
}

func (j *Journal) size() int {
	if j.capacity < 1 {
		return defaultJournal
	}
	return j.capacity
}

// Entries returns a copy of the recorded changes, oldest first.
func (j *Journal) Entries() []controller.Change {
	entries := make([]controller.Change, 0, len(j.ring))
	entries = append(entries, j.ring[j.oldest:]...)
	return append(entries, j.ring[:j.oldest]...)
}

// Dropped returns how many changes were overwritten.
func (j *Journal) Dropped() uint64 { return j.dropped }
