// Package overflow has the rules by which a full stage treats one more command:
//
//	stage.Overflow(overflow.Reject)
package overflow

// Rule says what a full stage does with one more command. A command that waits
// or is refused was not accepted. A command that is dropped was accepted.
type Rule uint8

// The four rules.
const (
	// Wait makes a submitter wait for a free slot until its context ends, and
	// parks the workers of stages that forward to this one.
	Wait Rule = iota
	// Reject refuses a submitter with stage.ErrFull. A command that another
	// stage forwards is shed.
	Reject
	// DropNewest accepts the command and sheds it.
	DropNewest
	// DropOldest accepts the command and sheds the command that has been in the
	// queue for longest.
	DropOldest
)
