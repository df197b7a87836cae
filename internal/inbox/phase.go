package inbox

// phase says from where the inbox accepts commands. There is one phase at a
// time, and one table of transitions.
//
// A drain goes through three of them, step by step, at the drain's command.
// While draining, the inbox takes nothing from outside. While barring, because
// all inboxes before it are empty, it takes nothing from stages in use either:
// their workers keep their commands for it and wait, as for a full inbox. Along
// a back edge they still hand over, since the inbox may need them to become
// empty. Once drained, because it was seen to be empty, it takes nothing along
// back edges either.
//
// Stages that are drained themselves always hand over to it, and their handlers
// may submit to it: their commands were accepted and have to end somewhere. So
// an order of stages that is not the best, because a handler takes an edge that
// was not declared, delays the drain and stops nothing. Shared workers always
// hand over; their pool takes nothing from an inbox in use that leads to a
// barring one.
type phase int32

const (
	unopened phase = iota // no pipeline has started it
	open
	closed // takes nothing from outside
	draining
	barring
	drained
	halted // takes nothing and gives out nothing; there is no way out
	phases
)

// event is a cause of a change of phase.
type event int

const (
	toOpen event = iota
	toClose
	toDrain
	toBar
	toSeal
	toEndDrain
	toHalt
	events
)

// transitions say which phase follows, by event and present phase.
var transitions = [events][phases]phase{
	//          unopened  open      closed    draining  barring   drained   halted
	toOpen:     {open, open, open, open, open, open, halted},
	toClose:    {unopened, closed, closed, draining, barring, drained, halted},
	toDrain:    {draining, draining, draining, draining, draining, draining, halted}, // anew, if it has begun
	toBar:      {unopened, open, closed, barring, barring, drained, halted},
	toSeal:     {unopened, open, closed, draining, drained, drained, halted},
	toEndDrain: {unopened, closed, closed, closed, closed, closed, halted},
	toHalt:     {halted, halted, halted, halted, halted, halted, halted},
}

// inUse reports whether the stage is neither being drained nor has been.
func (p phase) inUse() bool { return p < draining || p == halted }
