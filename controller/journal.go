package controller

// DefaultJournal is how many changes a journal holds if nobody says otherwise.
const DefaultJournal = 256

// Journal remembers the last changes, a fixed number of them. The zero Journal
// is ready and holds [DefaultJournal].
//
// A journal is not safe for concurrent use: whoever owns it locks, or copies
// Entries out.
type Journal struct {
	ring     []Change
	capacity int
	oldest   int // place of the oldest entry once the ring is full
	dropped  uint64
}

// NewJournal returns a journal for the given number of changes, or for
// [DefaultJournal] if that is less than one.
func NewJournal(capacity int) *Journal {
	return &Journal{capacity: capacity}
}

// Add writes changes down, in place of the oldest ones if there is no room.
func (j *Journal) Add(changes ...Change) {
	for _, c := range changes {
		j.add(c)
	}
}

// Amend writes a change down in place of the newest one, if that is of the same knob, of
// the same stage or pool, and by the same policy; the entry then says what was before
// both. Otherwise it is Add. It is for knobs that are turned again and again, such as a
// visit plan each round, which would crowd out all others.
func (j *Journal) Amend(c Change) {
	last := j.newest()
	if last == nil || last.What != c.What || last.StageName != c.StageName || last.Policy != c.Policy {
		j.add(c)
		return
	}
	c.Before = last.Before
	*last = c
}

func (j *Journal) newest() *Change {
	if len(j.ring) == 0 {
		return nil
	}
	return &j.ring[(j.oldest+len(j.ring)-1)%len(j.ring)]
}

// The ring grows as it fills: most pipelines change little.
func (j *Journal) add(c Change) {
	if len(j.ring) < j.room() {
		j.ring = append(j.ring, c)
		return
	}
	j.ring[j.oldest] = c
	j.oldest = (j.oldest + 1) % len(j.ring)
	j.dropped++
}

func (j *Journal) room() int {
	if j.capacity < 1 {
		return DefaultJournal
	}
	return j.capacity
}

// Entries returns a copy of what is remembered, oldest first.
func (j *Journal) Entries() []Change {
	entries := make([]Change, 0, len(j.ring))
	entries = append(entries, j.ring[j.oldest:]...)
	return append(entries, j.ring[:j.oldest]...)
}

// Dropped is how many changes were written over.
func (j *Journal) Dropped() uint64 { return j.dropped }
