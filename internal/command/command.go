// Package command holds what travels through a pipeline: a command in its
// envelope, and the ticket of whoever waits for its end.
package command

// Envelope is one command on its way. It is passed by value: nothing is
// allocated for a hop.
type Envelope struct {
	// Cmd is the command itself.
	Cmd any
	// Ticket is told how the command ends; nil if nobody waits.
	Ticket *Ticket
	// Since is when the command entered the room it is in, in nanoseconds of
	// the host's clock; 0 if nobody looked at the clock.
	Since int64
	// Tries counts the tries in the present room that did not succeed.
	Tries uint32
	// Child marks a command that was emitted: the ticket waits for it, but
	// its result is not the ticket's result.
	Child bool
	// Pack is how many commands, this one and those right behind it, are to be handled
	// in one batch and apart from all others, because the batch they were in crashed; 0
	// if it does not matter.
	Pack uint8
	// Proven marks a command with which a canary crashed, or is at work: if it comes
	// back, it is for the version before.
	Proven bool
	// Woken marks a command that was begun and set aside, and may go on: Cmd is the run.
	Woken bool
}
