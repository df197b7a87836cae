package letters

import (
	"errors"
	"time"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// Letter is a copy of a letter in a store. Package pipeline/letters documents it,
// and has a type with the same fields.
type Letter struct {
	stage.DeadLetter
	ID          uint64
	Version     string
	Fingerprint string
	Seen        uint64
	First, Last time.Time
	Missing     error
	Parked      bool
	Waiting     int
}

// missing is why a letter that was read has no command.
type missing struct {
	error

	of string // the type of the command
}

// Unwrap returns the reason.
func (m *missing) Unwrap() error { return m.error }

// Group sums up the letters of one stage, reason and fingerprint; see
// Group of package pipeline/letters.
type Group struct {
	Stage       string
	Reason      reason.Reason
	Fingerprint string
	Seen        uint64
	Kept        int
	First, Last time.Time
	Example     Letter // the newest in the store; its ID is 0 if none is
}

// Filter selects letters; see Filter of package pipeline/letters.
type Filter struct {
	Stage       string
	Reason      reason.Reason
	Fingerprint string
	Parked      bool
	If          func(Letter) bool // user code; called without the store's lock
	OldestFirst bool
	Limit       int
}

// Entry is a letter that is put into a store.
type Entry struct {
	stage.DeadLetter

	Version, Fingerprint string
	// Heard is set if the source handles the command's end, and keeps the
	// command if needed.
	Heard bool
	// Park is the letter's hold on the key of its command; nil if it has none.
	Park *inbox.Park

	use     link.Use // of the command; nil if only a handler may use it
	missing error    // why there is no command
	awaits  link.Use // the return of the handler that may change the command; nil if the body has the command
	size    int64    // of the command, about
	body    []byte   // for the file; nil if the letter is not for it
}

// hang is the error of package worker for a command whose handler was given up,
// if it is known when that returns.
type hang interface {
	error
	link.Use
}

// takeUse takes the command of an entry out of its use.
func (e *Entry) takeUse() {
	if u, ok := e.Command.(link.Used); ok {
		e.Command, e.use = u.Value, u.Use
	}
}

func hangOf(d *stage.DeadLetter) (h hang, known bool) {
	if d.Reason == reason.Error {
		return nil, false
	}
	return errors.AsType[hang](d.Err)
}
