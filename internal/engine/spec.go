package engine

import (
	"reflect"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/states"
)

// Config is a stage's options, resolved.
type Config struct {
	Inbox        *inbox.Config // the inbox's own, once the core is made
	Fewest, Most int           // bounds of the number of workers
	Asks         bool          // the options set those bounds
	Fits         bool          // there are as many instances as workers, at most
	Blocking     bool          // handlers wait rather than compute
	ExpiresAt    func(cmd any) time.Time
	Timeout      time.Duration
	Grace        time.Duration
	RetryIf      func(error) bool
	Refusal      func(error) (asked time.Duration, refused bool)
	Endures      int           // how many crashes in a row, beyond one for each worker, the stage endures
	EnduresStart int           // how many failures to start, in the same way
	StartsFor    time.Duration // for how long failures to start are endured at least
	Outs         []behaviour.Outlet
	// Stateful is the part of the stage that a checkpoint of the pipeline
	// saves; nil: none.
	Stateful states.Stateful
	Timed    link.Timed        // the behaviour, if it has timers; otherwise nil
	Single   bool              // a command makes one further command for each of Outs, at most
	KeyOf    func(cmd any) any // the key of a command, for the log; nil if the stage is not keyed
	SharedBy func(cmd any) any // the key of a command, by which keys share the stage or have a rate; nil if they do neither
	Made     Made              // where the stage was made
}

// Typed is the side of a stage that has its command type and its public types.
type Typed interface {
	// Takes reports whether a message is a command of the stage.
	Takes(message any) bool
	// Type returns the type of the stage's commands.
	Type() reflect.Type
	// Key returns a function that gives the key of a command a number which is
	// the same in all processes; nil if the stage is not keyed. The error says
	// why the keys have no such number.
	Key() (of func(cmd any) uint64, err error)
	// Faults returns all that is wrong with the stage's options.
	Faults() []error
	// Surround sets the middleware of the stage's pipeline, a
	// []stage.MiddlewareFunc, before an instance starts.
	Surround(around any)
	// Snapshot returns the accounts of the stage as a stage.Snapshot.
	Snapshot(accounts *inbox.Accounts) any
}

// Spec describes a stage before it starts: its options, and the types of its
// commands and keys.
type Spec struct {
	config *Config
	typed  Typed
}

// Made returns where the stage was made.
func (s *Spec) Made() string { return s.config.Made.String() }

// Limited reports whether handlers have a time limit, after which the worker
// goes on without them.
func (s *Spec) Limited() bool { return s.config.Timeout > 0 }

// Type returns the type of the stage's commands.
func (s *Spec) Type() reflect.Type { return s.typed.Type() }

// Key returns a function that gives the key of a command a number which is the
// same in all processes; nil if the stage is not keyed.
func (s *Spec) Key() (of func(cmd any) uint64, err error) { return s.typed.Key() }

// IsKeyed reports whether the stage is a keyed one.
func (s *Spec) IsKeyed() bool {
	key, err := s.Key()
	return key != nil || err != nil
}

// Faults returns all that is wrong with the stage's options.
func (s *Spec) Faults() []error { return s.typed.Faults() }

// KeyOf returns the key of a command, and whether the stage is keyed. It calls
// user code.
func (s *Spec) KeyOf(cmd any) (key any, keyed bool) {
	if s.config.KeyOf == nil || !s.typed.Takes(cmd) {
		return nil, false
	}
	return s.config.KeyOf(cmd), true
}

// WaitsBy returns the key by which a command waits in the stage: of a keyed
// stage, a fair one, or one with a rate for each key. It calls user code.
func (s *Spec) WaitsBy(cmd any) (key any, ok bool) {
	if s.config.KeyOf != nil || s.config.SharedBy == nil || !s.typed.Takes(cmd) {
		return s.KeyOf(cmd)
	}
	return s.config.SharedBy(cmd), true
}

// Takes returns the type of the stage's commands, in words.
func (s *Spec) Takes() string { return s.typed.Type().String() }

// Stateful returns the state that a checkpoint of the pipeline saves of the
// stage; nil if there is none.
func (s *Spec) Stateful() states.Stateful { return s.config.Stateful }

// Timers asks the stage's behaviour for its windows and timers.
func (s *Spec) Timers() (t link.Timers) {
	if s.config.Timed != nil {
		t = s.config.Timed.Timers()
	}
	return t
}

// Single reports whether a command makes one further command for each port, at
// most.
func (s *Spec) Single() bool { return s.config.Single }

// Blocking reports whether the stage's handlers wait rather than compute.
func (s *Spec) Blocking() bool { return s.config.Blocking }

// Asked returns the fewest workers that the stage's options ask for, or 0 if
// they leave that to the default.
func (s *Spec) Asked() int {
	if !s.config.Asks {
		return 0
	}
	return s.config.Fewest
}

// Grows reports whether the stage has instances for as many workers as it may
// have, whatever their number.
func (s *Spec) Grows() bool { return s.config.Fits }

// Declared returns the bounds of the number of workers that the stage's options
// set.
func (s *Spec) Declared() (fewest, most int) { return s.config.Fewest, s.config.Most }
