package logs

import (
	"log/slog"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/internal/stacks"
	"github.com/golda-dev/golda/stage/reason"
)

const (
	// stackPause is how long the stack of a crash is left out after a line that
	// had it. A stack has kilobytes, and does not change.
	stackPause = time.Minute
	// mostStacks bounds how many fingerprints are remembered.
	mostStacks = 256
)

// Crash writes a line about a crash of a handler unless there were too many of
// them. Again says that the command is tried again; the line is no warning
// then. More, unless it is nil, returns further attributes. The line has the
// place and the fingerprint of the crash, and the stack once in a minute for
// each fingerprint.
func (l *Limiter) Crash(e *crash.Error, again bool, more func() []any) {
	level := slog.LevelWarn
	if again {
		level = slog.LevelInfo
	}
	l.Log(Kind{Level: level, Message: "handler crashed", Stage: e.Stage, Reason: string(reason.Crash)}, func() []any {
		args := []any{"attempt", e.Attempts, "again", again}
		if more != nil {
			args = append(args, more()...)
		}
		if e.Version != "" {
			args = append(args, "version", e.Version)
		}
		print := e.Fingerprint()
		args = append(args, "panic", plain.Text(e.Value))
		if at := stacks.Place(e.Stack); at != "" {
			args = append(args, "at", at)
		}
		args = append(args, "fingerprint", print)
		if l.stacks.due(print, time.Now()) {
			args = append(args, "stack", string(e.Stack))
		}
		return args
	})
}

// shown says when the stack of each fingerprint was written. The zero shown is
// ready.
type shown struct {
	mu sync.Mutex // guards at
	at map[string]time.Time
}

// due reports whether a stack must be written now, and notes that it is.
func (s *shown) due(fingerprint string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, known := s.at[fingerprint]; known && now.Sub(last) < stackPause {
		return false
	}
	if s.at == nil || len(s.at) >= mostStacks {
		s.at = map[string]time.Time{}
	}
	s.at[fingerprint] = now
	return true
}
