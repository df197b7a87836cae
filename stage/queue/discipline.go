package queue

import (
	"fmt"
	"reflect"
)

// Discipline says how waiting commands are ordered. It is a value that is never
// changed and may be shared by stages. The disciplines are those of this package; an
// order of your own is a [PriorityOf].
type Discipline interface {
	// Name is the one that [ByName] knows. Two disciplines are told apart by it and
	// not by ==, which panics on one that holds a function.
	Name() string
	// Check returns all faults of the parameters.
	Check() error

	// plan says how to build a line. It is what closes the set: an order is made of
	// a generic type, which no method can return.
	plan() plan
}

// Keyed is a discipline that asks something of each command. Whoever pushes a command
// to its line gives the key along.
type Keyed interface {
	Discipline

	// Key is asked once for each command, before it is pushed. It calls the user's
	// code, so it is to be called without a lock; a panic there goes through it.
	Key(cmd any) Key
}

// typed is a discipline that may hold a function of one type of commands.
type typed interface {
	typed() reflect.Type // nil if it does not
}

// CommandType returns the type of commands that the function of a discipline takes, see [PriorityOf]
// and [DeadlineOf], or nil if the discipline has no function.
func CommandType(d Discipline) reflect.Type {
	if t, ok := d.(typed); ok {
		return t.typed()
	}
	return nil
}

// Key is a command's place among others: the smaller the sooner, and equal ones as
// they came. The zero Key is that of a command that asks for nothing.
type Key int64

// plan is how the line of a discipline is built.
type plan struct {
	build build
	above int // for turning: how many may wait before the newest goes first
}

// build is the kind of order that a line is made of.
type build uint8

const (
	inOrder build = iota // a line is that by itself
	turning
	ranked
)

// fault is the error of a broken parameter, nil if it is not broken.
func fault(discipline string, broken bool, format string, args ...any) error {
	if !broken {
		return nil
	}
	return fmt.Errorf("queue: "+discipline+": "+format, args...)
}
