// Package command holds what travels through a pipeline: a command in its
// envelope, and the ticket of whoever waits for its end.
package command

import "time"

// Envelope is one command on its way. It is passed by value: nothing is
// allocated for a hop.
//
// It is half a line of the cache. It is copied three times for a hop, and cleared, and often another processor
// has written it; so what is seldom of use shares one word. With a field for each it was a
// quarter larger, and a hop took some 5 % longer.
type Envelope struct {
	// Cmd is the command itself.
	Cmd any
	// From is what the command has in common with all that come of the same submission: its ticket, and its
	// caller's context. It is nil if there is neither.
	From *Origin

	note note
}

// note is what else is known of a command. From the lowest bit: five flags; in eight bits the pack, or if there is none
// the stage that emitted it; and when it came. Of one that was tried, how often, and less exactly when it came.
type note uint64

const (
	child note = 1 << iota
	proven
	woken
	tried
	packed

	packAt  = 5
	pack    = note(MaxPack) << packAt   // the pack if it is packed; else the emitter's place plus one, 0 if there is none
	sinceAt = 13                        // when it came, in nanoseconds; or
	tries   = note(MaxTries) << sinceAt // how often it was tried,
	laterAt = sinceAt + 16              // and when it came,
	coarse  = 13                        // in 2 to the power of so many nanoseconds
)

// MaxPack is the largest pack, and MaxTries is as far as tries are counted.
const (
	MaxPack  = 255
	MaxTries = 1<<16 - 1
)

// Emitters is how many stages, the first of a pipeline, are remembered as those that emitted a command.
const Emitters = 255

// Emitted returns the envelope of a command that a handler of the stage at a place emitted: the ticket of its origin
// waits for it, but its result is not the ticket's result.
func Emitted(cmd any, from *Origin, place int) Envelope {
	e := Envelope{Cmd: cmd, From: from, note: child}
	if place < Emitters {
		e.note |= note(place+1) << packAt
	}
	return e
}

// Emitter returns the place of the stage whose handler emitted the command, or the one that the command came of; -1 if none
// did, or if it is not known: the stage is not one of the first [Emitters], or the command was in a pack.
func (e *Envelope) Emitter() int {
	if e.note&packed != 0 {
		return -1
	}
	return int(e.note&pack>>packAt) - 1
}

// Ticket returns the ticket that is told how the command ends, nil if nobody waits.
func (e *Envelope) Ticket() *Ticket { return e.From.Ticket() }

// Caller reports whether the command has its caller's context.
func (e *Envelope) Caller() bool { return e.From != nil && e.From.ctx != nil }

// Child reports whether the command was emitted, see [Emitted].
func (e *Envelope) Child() bool { return e.note&child != 0 }

// Carry makes it the envelope in which a command goes on that came of another: its origin is the same.
// The two may be one.
func (e *Envelope) Carry(cmd any, from *Envelope) {
	if e != from {
		e.From = from.From
	}
	keeps := child | pack
	if from.note&packed != 0 {
		keeps = child
	}
	e.Cmd, e.note = cmd, from.note&keeps
}

// Moment is an instant of the host's clock as envelopes keep it. The zero Moment is none.
type Moment uint64

// At is the moment of a reading of the host's clock, in nanoseconds. It comes again after 26 days: what has waited
// for more than half of that is thought to have come just now.
func At(now int64) Moment { return max(Moment(now)<<sinceAt, 1<<sinceAt) }

// later is the moment as one that was tried keeps it: to 8 µs. It comes again after 78 hours.
func (m Moment) later() note { return max(note(m)>>(sinceAt+coarse)<<laterAt, 1<<laterAt) }

// Enter notes when the command entered the queue of the room where it is.
func (e *Envelope) Enter(m Moment) {
	if e.note&tried == 0 {
		e.note = e.note&(1<<sinceAt-1) | note(m)
	} else {
		e.note = e.note&(1<<laterAt-1) | m.later()
	}
}

// Waited is for how long the command has been in the queue, and false if nobody looked at the clock when it
// came. Who reads the clock may have done so before it came: then it has not waited.
func (e *Envelope) Waited(now int64) (waited time.Duration, known bool) {
	if e.note&tried == 0 {
		ago := note(At(now)) - e.note&^(1<<sinceAt-1)
		return sinceThen(time.Duration(ago)>>sinceAt, e.note>>sinceAt)
	}
	ago := At(now).later() - e.note&^(1<<laterAt-1)
	return sinceThen(time.Duration(ago)>>laterAt<<coarse, e.note>>laterAt)
}

// Seen is how many commands the eye takes in: of so many at the head of a queue at least one should tell
// when it came.
const Seen = 16

// Waited is for how long the first of several commands that tells has been in the queue, and for how many that may
// stand: it, and those behind it; none, if of those that are [Seen] none tells.
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

// Tries is how many tries in the present room did not succeed.
func (e *Envelope) Tries() int {
	if e.note&tried == 0 {
		return 0
	}
	return int(e.note & tries >> sinceAt)
}

// Failed counts one more of those, and forgets when the command came: it will come again.
func (e *Envelope) Failed() {
	n := min(e.Tries()+1, MaxTries)
	e.note = e.note&(1<<sinceAt-1) | tried | note(n)<<sinceAt
}

// Pack is how many commands, this one and those right behind it, are to be handled
// in one batch and apart from all others, because the batch they were in crashed; 0
// if it does not matter.
func (e *Envelope) Pack() int {
	if e.note&packed == 0 {
		return 0
	}
	return int(e.note & pack >> packAt)
}

// SetPack sets the pack, which is [MaxPack] at most. The command's emitter is forgotten if there is one.
func (e *Envelope) SetPack(n int) {
	switch {
	case n > 0:
		e.note = e.note&^pack | packed | note(n)<<packAt
	case e.note&packed != 0:
		e.note &^= pack | packed
	}
}

// Proven reports whether a canary crashed with the command, or is at work at it: if it comes
// back, it is for the version before.
func (e *Envelope) Proven() bool { return e.note&proven != 0 }

// Prove says whether it is so.
func (e *Envelope) Prove(yes bool) { e.set(proven, yes) }

// Woken reports whether the command was begun and set aside, and may go on: Cmd is the run.
func (e *Envelope) Woken() bool { return e.note&woken != 0 }

// Wake makes it so.
func (e *Envelope) Wake() { e.set(woken, true) }

func (e *Envelope) set(flag note, yes bool) {
	e.note &^= flag
	if yes {
		e.note |= flag
	}
}
