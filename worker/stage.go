package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/inbox"
)

// Batch is the commands of a batch.
type Batch []command.Envelope

// ErrTimeout is the cause with which a handler's context ends when the stage's
// time limit for a command has passed.
var ErrTimeout = errors.New("stage: command took longer than its time limit")

// Stage is what the workers of one stage have in common.
type Stage struct {
	Inbox   *inbox.Inbox
	Timeout time.Duration // the time limit for a command; 0 for none
	Grace   time.Duration // how long a handler may run past Timeout
	RetryIf func(error) bool
	// Refusal reports whether an error of a handler says that a service that
	// the handler needs has refused it, so that the command was not tried, and
	// for how long it asks not to be called again.
	Refusal func(error) (asked time.Duration, refused bool)
	Boxes   command.Recycler // of the commands; nil if they need none
	// TTL is how long a command may wait in the queue. ExpiresAt returns when a
	// command expires by itself; it may be nil.
	TTL       time.Duration
	ExpiresAt func(cmd any) time.Time
	Log       *slog.Logger
	// Crashed is called for every crash of a handler. Again reports whether the
	// command will be tried again.
	Crashed func(crash *CrashError, again bool)
	// Context is the parent of handlers' contexts. It ends when the pipeline
	// stops hard, and has the labels for profiles.
	Context context.Context
	// Endures is how many crashes in a row, beyond one for each worker, the
	// stage endures before its supervisor gives up, and EnduresStart how many
	// failures to start. Failures to start are endured for StartsFor at least,
	// however many there are.
	Endures, EnduresStart int32
	StartsFor             time.Duration
	// Unsaved is why no instance may have snapshots; empty if any may.
	Unsaved string
	// Defers says that handlers may call [link.Deferrer.Defer].
	Defers bool
	// Runs has the coroutines of handlers that may suspend; it is nil if no
	// handler of the stage may.
	Runs *coro.Host

	// Calls says which commands are handled beside the others, as runs that end
	// outside the workers; nil: none. The instance handles all others together.
	Calls func(e *command.Envelope) bool

	// Apart decides when a command resumes that was woken outside the actors:
	// it calls resume, now or later. If it is nil the command resumes at once.
	// Apart is given the stage's name and the command's number.
	Apart func(stage string, number uint64, resume func())

	hangs   hangs
	begun   atomic.Uint64 // commands that have a number
	saidCut atomic.Int64  // when the log said last that a pause was cut, by the pipeline's clock; 0 if it has not
	present atomic.Pointer[Version]
	moving  atomic.Int32 // above 0 while there may be instances that are not of the present version

	crashSite atomic.Pointer[site] // of the last crash of a handler; nil if none has crashed
}

// mayExpire reports whether commands of the stage may expire.
func (s *Stage) mayExpire() bool { return s.TTL > 0 || s.ExpiresAt != nil }
