package behaviour

import "errors"

// ErrNoOutcome is the reason of a command whose handler returned the zero
// [Outcome] instead of one made by [OK], [Forward] or [Error].
var ErrNoOutcome = errors.New("behaviour: handler returned no outcome; return OK, Forward or Error")

// errNoReason stands in for a nil reason given to [Error].
var errNoReason = errors.New("behaviour: error without a reason")

// ErrUnwired is the reason of a command that was forwarded to nil, or to a port
// that is not wired to a stage.
var ErrUnwired = errors.New("behaviour: forwarded to a port that is not wired; declare it with stage.Out and wire it with pipeline.Wire")

// Kind distinguishes the three outcomes. The zero Kind is the kind of the zero
// [Outcome]; see [ErrNoOutcome].
type Kind uint8

// The kinds.
const (
	KindOK Kind = iota + 1
	KindForward
	KindError
)

// String returns the kind as one word.
func (k Kind) String() string {
	switch k {
	case KindOK:
		return "ok"
	case KindForward:
		return "forward"
	case KindError:
		return "error"
	default:
		return "none"
	}
}

// Outcome is the result of handling one command. It is made by [OK], [Forward]
// and [Error]; the zero Outcome is an error (see [ErrNoOutcome]).
type Outcome struct {
	// An outcome is three words long, so that it is passed in registers: with a
	// separate field for the kind a hop took twice as long. Two inlets that
	// lead to no stage stand for OK and Error.
	next  *Inlet
	value any // the result, the forwarded command, or the reason
}

var done, failed Inlet

// OK returns the outcome of a command that is done. The result, which may be
// nil, goes to the caller that waits for it.
func OK(result any) Outcome {
	return Outcome{next: &done, value: result}
}

// Forward passes a command on to a stage, or to a port wired to one. It may be
// the command that the handler received or another one. A command of a type
// that next does not take does not compile.
//
// An outcome may be kept and returned again, so Forward copies a command that
// is a value, such as a struct, to the heap. A pointer costs no allocation; nor
// does a value that [Emit] sends, or that is the result of a stage.Map.
//
// Forwarding to a port that is not wired, or to nil, ends the command with
// [ErrUnwired]. A port that the stage declares with stage.Out is checked before
// the start.
func Forward[C any](next Target[C], cmd C) (o Outcome) {
	// Written in this way, Forward is just small enough to be inlined, which
	// saves a quarter of its time.
	if next != nil {
		o = Outcome{next: next.Inlet(), value: cmd}
	}
	if o.next == nil {
		return unwired
	}
	return o
}

var unwired = Error(ErrUnwired)

// Error answers the command with a reason. It is an answer like any other:
// nothing crashes and nothing is restarted. A waiting caller gets the reason
// wrapped with the stage's name, so the reason need not say where the error
// happened.
func Error(reason error) Outcome {
	if reason == nil {
		reason = errNoReason
	}
	return Outcome{next: &failed, value: reason}
}

// Kind returns which of the outcomes o is.
func (o Outcome) Kind() Kind {
	switch o.next {
	case nil:
		return 0
	case &done:
		return KindOK
	case &failed:
		return KindError
	default:
		return KindForward
	}
}

// Result returns the result given to [OK], and nil for other outcomes.
func (o Outcome) Result() any {
	if o.next != &done {
		return nil
	}
	return o.value
}

// Command returns the command given to [Forward], and nil for other outcomes.
func (o Outcome) Command() any {
	if o.Kind() != KindForward {
		return nil
	}
	return o.value
}

// Next returns the inlet given to [Forward], and nil for other outcomes.
func (o Outcome) Next() *Inlet {
	if o.Kind() != KindForward {
		return nil
	}
	return o.next
}

// Way returns the inlet of a [Forward], and the value that any of the three
// outcomes carries. For OK and Error the inlet is one that belongs to no stage.
// It is for the engine, which knows the kind, or which inlet it expects; other
// code should use [Outcome.Result], [Outcome.Command], [Outcome.Next] and
// [Outcome.Err].
func (o Outcome) Way() (next *Inlet, value any) {
	// The fields could be those of a type in an internal package, whose methods
	// users do not see. But then Forward is too large to be inlined.
	return o.next, o.value
}

// Err returns the reason given to [Error], [ErrNoOutcome] for the zero
// Outcome, and nil otherwise.
func (o Outcome) Err() error {
	switch o.next {
	case nil:
		return ErrNoOutcome
	case &failed:
		return o.value.(error)
	default:
		return nil
	}
}
