package behaviour

import (
	"errors"

	"github.com/golda-dev/golda/internal/link"
)

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
	// separate field for the kind a hop took twice as long. Three inlets that
	// lead to no stage stand for OK, Error, and Forward with a reply.
	next  *Inlet
	value any // the result, the forwarded command, the reason, or a *link.Reply
}

var done, failed, replied Inlet

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

// WithReply returns a [Forward] that also answers the caller. A caller that
// waits for the handler's command, by stage.Call or Stage.Ask, gets the result
// as soon as the handler has returned, as from [OK], and the command goes on
// without it:
//
//	return behaviour.Forward(b.ship, order).WithReply(Receipt{order.ID})
//
// The handler's command has ended then. The forwarded one is a command of its
// own, as if it had been submitted with the caller's context: it has the
// values of that context, and a deadline of stage.WithDeadline, but does not
// end with it; if it fails it leaves a letter, and the caller does not learn of
// it. So are the commands that the handler has emitted, except any that left
// before it returned; see [Emit]. Unlike Submit in a handler, WithReply does
// not wait for a free slot, and a try that fails sends nothing. The caller may
// have the result before the command is queued at the next stage.
//
// If no caller waits for a result, WithReply changes nothing: the outcome is a
// Forward, and a source or an inlet learns of the end of the whole. If several
// commands were made into one, as in a window, and a source waits for one of
// them, their callers get the result at the end of the whole. An emitted command
// has no result of its own; its caller waits for it no longer.
//
// Of an outcome that is no Forward, such as one to a port that is not wired,
// WithReply returns the outcome as it is.
func (o Outcome) WithReply(result any) Outcome {
	if o.Kind() != KindForward {
		return o
	}
	return Outcome{next: &replied, value: &link.Reply{Next: o.Next(), Command: o.Command(), Result: result}}
}

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

// Result returns the result given to [OK] or [Outcome.WithReply], and nil for
// other outcomes.
func (o Outcome) Result() any {
	switch o.next {
	case &done:
		return o.value
	case &replied:
		return o.value.(*link.Reply).Result
	default:
		return nil
	}
}

// Command returns the command given to [Forward], and nil for other outcomes.
func (o Outcome) Command() any {
	switch {
	case o.Kind() != KindForward:
		return nil
	case o.next == &replied:
		return o.value.(*link.Reply).Command
	default:
		return o.value
	}
}

// Next returns the inlet given to [Forward], and nil for other outcomes.
func (o Outcome) Next() *Inlet {
	switch {
	case o.Kind() != KindForward:
		return nil
	case o.next == &replied:
		return o.value.(*link.Reply).Next
	default:
		return o.next
	}
}

// Way returns the inlet of a [Forward], and the value that any of the three
// outcomes carries. For OK and Error the inlet is one that belongs to no stage;
// for a Forward [Outcome.WithReply], too, and the value is a *link.Reply.
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
