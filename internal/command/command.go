// Package command holds the unit that travels through a pipeline: a command in
// its envelope, and the ticket with which a caller waits for the command's end.
package command

import (
	"time"

	"github.com/golda-dev/golda/internal/link"
)

// Envelope is one command on its way through a pipeline. It is passed by value,
// so a hop allocates nothing.
//
// An Envelope is half a cache line. A hop copies it three times and clears it,
// and often another processor has written it. So facts that are seldom needed
// share one word. With a field for each the envelope was a quarter larger, and
// a hop took some 5 % longer.
type Envelope struct {
	// Load is the command, or a box with it: see [link.Box]. Only code that
	// passes it on as it is reads it; other code calls [Envelope.Command] or,
	// if it knows the type, [link.Open]. Of a command that is woken it is the
	// run.
	Load any
	// From is shared by all commands that result from one submission: it has
	// the ticket and the caller's context. It is nil if there is neither.
	From *Origin

	note note
}

// note packs facts about a command into 64 bits. From the lowest bit: four
// flags; in eight bits the pack, or the place of the stage that emitted the
// command if there is no pack; and when it was queued. For a command that was
// tried before, the time shares its bits with the number of tries and of
// refusals, so it is less exact.
type note uint64

const (
	child note = 1 << iota
	woken
	tried
	packed

	packAt  = 4
	pack    = note(MaxPack) << packAt   // the pack if packed is set; otherwise the emitter's place plus one, or 0
	sinceAt = 12                        // when it was queued, in nanoseconds; or
	tries   = note(MaxTries) << sinceAt // how often it was tried,
	refused = note(1) << (sinceAt + 16) // whether it was refused since,
	laterAt = sinceAt + 17              // and when it was queued,
	coarse  = 14                        // in units of 2 to this power of nanoseconds; if it was refused,
	againAt = laterAt
	again   = note(MaxRefusals) << againAt // how often,
	longAt  = againAt + 3                  // and when it was queued,
	rough   = 17                           // in units of 2 to this power of nanoseconds
)

// MaxPack is the largest pack, MaxTries the largest number of tries that is
// counted, and MaxRefusals the largest number of refusals in a row.
const (
	MaxPack     = 255
	MaxTries    = 1<<16 - 1
	MaxRefusals = 1<<3 - 1
)

// Emitters is how many stages can be recorded as the emitter of a command:
// those at the first places of a pipeline.
const Emitters = 255

// Emitted returns the envelope of a command that a handler of the stage at a
// place emitted. The ticket of its origin waits for it, but its result is not
// the ticket's result.
func Emitted(load any, from *Origin, place int) Envelope {
	e := Envelope{Load: load, From: from, note: child}
	if place < Emitters {
		e.note |= note(place+1) << packAt
	}
	return e
}

// Emitter returns the place of the stage whose handler emitted the command, or
// the command that this one results from. It returns -1 if no handler did, or
// if the stage is not known: it is not one of the first [Emitters], or the
// command was in a pack.
func (e *Envelope) Emitter() int {
	if e.note&packed != 0 {
		return -1
	}
	return int(e.note&pack>>packAt) - 1
}

// Command returns the command as users see it: without its box. A command that
// was in one is copied to the heap.
func (e *Envelope) Command() any { return link.Bare(e.Load) }

// Unbox takes the command out of its box. The box is not used again. Unbox is
// for a command whose box may still be read by a goroutine that was given up.
func (e *Envelope) Unbox() { e.Load = e.Command() }

// Ticket returns the ticket that waits for the command, or nil if no caller
// waits.
func (e *Envelope) Ticket() *Ticket { return e.From.Ticket() }

// Caller reports whether the command has a caller's context.
func (e *Envelope) Caller() bool { return e.From != nil && e.From.ctx != nil }

// Child reports whether the command was emitted, see [Emitted].
func (e *Envelope) Child() bool { return e.note&child != 0 }

// Continue makes e the envelope of a command that another one was forwarded as:
// it has the same origin. The two envelopes may be the same.
func (e *Envelope) Continue(load any, from *Envelope) {
	if e != from {
		e.From = from.From
	}
	keeps := child | pack
	if from.note&packed != 0 {
		keeps = child
	}
	e.Load, e.note = load, from.note&keeps
}

// Moment is an instant of the pipeline's clock as envelopes store it. The zero
// Moment is no instant.
type Moment uint64

// At returns the moment of a reading of the pipeline's clock, in nanoseconds.
// Moments repeat after 52 days: a command that has waited for more than half of
// that seems to have been queued just now.
func At(now int64) Moment { return max(Moment(now)<<sinceAt, 1<<sinceAt) }

// timeAt returns where the note of a tried command has the time, and its unit:
// 16 µs, or 131 µs if it was refused.
func (n note) timeAt() (at, unit int) {
	if n&refused != 0 {
		return longAt, rough
	}
	return laterAt, coarse
}

// later returns the moment as the note of a tried command stores it. It repeats
// after 156 hours.
func (m Moment) later(at, unit int) note { return max(note(m)>>(sinceAt+unit)<<at, 1<<at) }

// Enter records when the command entered the queue of the inbox where it is.
func (e *Envelope) Enter(m Moment) {
	if e.note&tried == 0 {
		e.note = e.note&(1<<sinceAt-1) | note(m)
	} else {
		at, unit := e.note.timeAt()
		e.note = e.note&(1<<at-1) | m.later(at, unit)
	}
}

// Waited returns for how long the command has been in the queue, and false if
// the clock was not read when it was queued. The reading now may be from before
// the command was queued; then it has not waited.
func (e *Envelope) Waited(now int64) (waited time.Duration, known bool) {
	if e.note&tried == 0 {
		ago := note(At(now)) - e.note&^(1<<sinceAt-1)
		return sinceThen(time.Duration(ago)>>sinceAt, e.note>>sinceAt)
	}
	at, unit := e.note.timeAt()
	ago := At(now).later(at, unit) - e.note&^(1<<at-1)
	return sinceThen(time.Duration(ago)>>at<<unit, e.note>>at)
}

// Seen is how many envelopes of a queue are inspected for the time at which
// they were queued. Not every envelope has one, to save readings of the clock;
// among 16 in a row at least one should.
const Seen = 16

// Waited returns for how long the first command whose time is known has been in
// the queue, and for how many commands that stands: that one and those behind
// it. It returns 0 commands if none of the first [Seen] has a time.
func Waited(es []Envelope, now int64) (waited time.Duration, many int) {
	for i := range es[:min(len(es), Seen)] {
		if waited, known := es[i].Waited(now); known {
			return waited, len(es) - i
		}
	}
	return 0, 0
}

func sinceThen(ago time.Duration, then note) (waited time.Duration, known bool) {
	if then == 0 {
		return 0, false
	}
	return max(ago, 0), true
}

// Tries returns how many tries at the present stage did not succeed.
func (e *Envelope) Tries() int {
	if e.note&tried == 0 {
		return 0
	}
	return int(e.note & tries >> sinceAt)
}

// Failed counts one more try that did not succeed. It clears the time, because
// the command will be queued again.
func (e *Envelope) Failed() {
	n := min(e.Tries()+1, MaxTries)
	e.note = e.note&(1<<sinceAt-1) | tried | note(n)<<sinceAt
}

// Refused counts a refusal of a resource that the handler needs: the command
// was not tried, and will be queued again. It keeps the time, because the
// command has waited since.
func (e *Envelope) Refused() {
	n, refusals, when := e.Tries(), min(e.Refusals()+1, MaxRefusals), note(0)
	switch {
	case e.note&tried == 0 && e.note>>sinceAt != 0:
		when = Moment(e.note>>sinceAt<<sinceAt).later(longAt, rough)
	case e.note&(tried|refused) == tried && e.note>>laterAt != 0:
		when = Moment(e.note>>laterAt<<(coarse+sinceAt)).later(longAt, rough)
	case e.note&(tried|refused) == tried|refused:
		when = e.note >> longAt << longAt
	}
	e.note = e.note&(1<<sinceAt-1) | tried | refused | note(n)<<sinceAt | note(refusals)<<againAt | when
}

// Refusals returns how often the command was refused in a row, up to
// [MaxRefusals].
func (e *Envelope) Refusals() int {
	if e.note&(tried|refused) != tried|refused {
		return 0
	}
	return int(e.note & again >> againAt)
}

// Returned reports whether the command was handled at the present stage before:
// it was tried or refused.
func (e *Envelope) Returned() bool { return e.note&tried != 0 }

// Pack returns how many commands, this one and those right behind it, must be
// handled in one batch and apart from all others, because the batch that they
// were in crashed. It returns 0 if there is no such rule.
func (e *Envelope) Pack() int {
	if e.note&packed == 0 {
		return 0
	}
	return int(e.note & pack >> packAt)
}

// SetPack sets the pack, which is [MaxPack] at most. It overwrites the
// command's emitter.
func (e *Envelope) SetPack(n int) {
	switch {
	case n > 0:
		e.note = e.note&^pack | packed | note(n)<<packAt
	case e.note&packed != 0:
		e.note &^= pack | packed
	}
}

// Woken reports whether the command was suspended and may be resumed: Load is
// the run.
func (e *Envelope) Woken() bool { return e.note&woken != 0 }

// Wake marks the command as woken.
func (e *Envelope) Wake() { e.set(woken, true) }

func (e *Envelope) set(flag note, yes bool) {
	e.note &^= flag
	if yes {
		e.note |= flag
	}
}
