package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/version"
)

// Batch is the commands of a batch.
type Batch []command.Envelope

// ErrTimeout is the cause with which a handler's context ends when the stage's
// time limit for a command has passed.
var ErrTimeout = errors.New("stage: command took longer than its time limit")

// CrashError is the crash of a handler.
type CrashError = crash.Error

// ErrGoexit is the value of a crash in which the handler ended its goroutine
// with runtime.Goexit, as a failing test helper does.
var ErrGoexit = crash.ErrGoexit

// Stage is what the workers of one stage have in common.
type Stage struct {
	Inbox    *inbox.Inbox
	Versions version.Series // of the behaviour

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
	// command cmd will be tried again, or nil if none was charged with the crash.
	Crashed func(err *crash.Error, again bool, cmd any)
	// Context is the parent of handlers' contexts. It ends when the pipeline
	// stops hard, and has the labels for profiles.
	Context context.Context
	// Endures is how many crashes in a row, beyond one for each worker, the
	// stage endures before its supervisor gives up, and EnduresStart how many
	// failures to start. Failures to start are endured for StartsFor at least,
	// however many there are.
	Endures, EnduresStart int32
	StartsFor             time.Duration
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

	hangs     hangs
	begun     atomic.Uint64 // commands that have a number
	saidCut   atomic.Int64  // when the log said last that a pause was cut, by the pipeline's clock; 0 if it has not
	lastCrash crash.Last    // of a handler
}

// Attach gives the stage what it has of its pipeline; see the fields of
// [version.Series] and of the same names here.
func (s *Stage) Attach(ctx context.Context, log *slog.Logger, unsaved string) {
	s.Context, s.Log = ctx, log
	s.Versions.Context, s.Versions.Log, s.Versions.Unsaved = ctx, log, unsaved
}

// mayExpire reports whether commands of the stage may expire.
func (s *Stage) mayExpire() bool { return s.TTL > 0 || s.ExpiresAt != nil }

// LogPanic logs an error of user code.
func (s *Stage) LogPanic(message string, err error) {
	crash.Log(s.Log, s.Inbox.Name(), message, err)
}

// cutPause is the pause between two lines that say that a pause was cut.
const cutPause = time.Minute

// logCut logs that another program has asked for a longer pause than the stage
// makes.
func (s *Stage) logCut(now int64, asked, pause time.Duration, err error) {
	last := s.saidCut.Load()
	if last != 0 && now-last < int64(cutPause) || !s.saidCut.CompareAndSwap(last, max(now, 1)) {
		return
	}
	_ = crash.Guard(s.Inbox.Name(), func() error { // a crash of the log cannot be logged
		s.Log.Warn("a command is tried again before the time that its error asks for; see stage.RetryPolicy.Max",
			"stage", s.Inbox.Name(), "asked", asked, "pause", pause, "error", err)
		return nil
	})
}

// endAbandoned notes that a handler which was given up has returned.
func (s *Stage) endAbandoned() {
	s.Inbox.Batches().EndAbandoned()
	s.Log.Info("a handler that was given up has returned", "stage", s.Inbox.Name())
}
