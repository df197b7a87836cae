package queue

import (
	"fmt"
	"reflect"
)

// Discipline says how waiting commands are ordered. It is an immutable value
// and may be shared by stages. The set of disciplines is closed: only this
// package has disciplines, and a custom order is a [PriorityOf].
type Discipline interface {
	// Name returns the name that [ByName] knows. Disciplines are compared by
	// their names and not by ==, which panics for one that holds a function.
	Name() string
	// Check returns all faults of the parameters.
	Check() error

	// plan says how to build a line. This method closes the set of disciplines:
	// an order is a generic type, which no method can return.
	plan() plan
}

// Keyed is a discipline that needs a key for each command. The code that pushes
// a command to its line passes the key.
type Keyed interface {
	Discipline

	// Key returns the key of a command. It is called once for each command,
	// before the command is pushed. It calls user code, so the caller must not
	// hold a lock; a panic of that code is not recovered.
	Key(cmd any) Key
}

// typed is a discipline that may hold a function of one type of commands.
type typed interface {
	typed() reflect.Type // nil if it does not
}

// CommandType returns the type of commands that the function of a discipline
// takes, see [PriorityOf] and [DeadlineOf], or nil if the discipline has no
// function.
func CommandType(d Discipline) reflect.Type {
	if t, ok := d.(typed); ok {
		return t.typed()
	}
	return nil
}

// Key is a command's rank in the order: smaller keys come out first, and equal
// keys in the order of arrival. A command without a priority or deadline has
// the zero Key.
type Key int64

// plan is how the line of a discipline is built.
type plan struct {
	build build
	above int // for the order adaptive: how many may wait before the newest goes first
	every int // for the order rank: of so many items one is the oldest; 0: none is
}

// build is the kind of order of a line.
type build uint8

const (
	inOrder build = iota // the line needs no order
	turning
	ranked
)

// fault returns the error of an invalid parameter, or nil if it is valid.
func fault(discipline string, broken bool, format string, args ...any) error {
	if !broken {
		return nil
	}
	return fmt.Errorf("queue: "+discipline+": "+format, args...)
}
