// Package logs writes log lines about user code: about crashes, dead letters
// and failed commands.
//
// The values that such a line shows, and the handler that writes it, are user
// code. So the package bounds how many lines are written ([Limiter]) and how
// large a command in a line is ([Payload]), and a panic in a handler, or in a
// method of a logged value, goes no further ([Shield], [Limiter.Write]).
package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/crash"
)

// Shield returns a handler that recovers panics of h. The pipeline logs in the
// middle of a batch, where a panic would do harm. A recovered panic is not
// reported, because the report would need the same log.
func Shield(h slog.Handler) slog.Handler { return shield{h} }

type shield struct{ slog.Handler }

// Handle passes a record on.
func (h shield) Handle(ctx context.Context, r slog.Record) error {
	defer func() { _ = recover() }()
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the shield.
func (h shield) WithAttrs(as []slog.Attr) slog.Handler { return shield{h.Handler.WithAttrs(as)} }

// WithGroup keeps the shield.
func (h shield) WithGroup(name string) slog.Handler { return shield{h.Handler.WithGroup(name)} }

// noCaller is the context of lines that belong to no caller.
var noCaller = context.Background()

// usual is how many lines of one kind are logged in a second, unless [Kind.Max]
// says otherwise.
const usual = 10

// Kind has the common properties of lines that are limited together.
type Kind struct {
	Level          slog.Level
	Message, Stage string
	Reason         string // of a dead letter or a crash
	Max            int    // lines in a second; 0 means 10
}

// Limiter keeps a flood of messages of one kind from becoming a flood of log
// lines: it writes a few of them in a second. The first line of a later second
// says how many were left out. Any goroutine may use it.
type Limiter struct {
	log    *slog.Logger
	stacks shown

	mu    sync.Mutex // guards kinds
	kinds map[Kind]*burst
}

// burst counts the lines of one kind.
type burst struct {
	since   time.Time
	lines   int // written since
	leftOut int // after the last line that was written
}

// NewLimiter returns a limiter that writes to a log.
func NewLimiter(log *slog.Logger) *Limiter { return &Limiter{log: log, kinds: map[Kind]*burst{}} }

// Log writes a line unless there were too many of its kind; see
// [Limiter.Write].
func (l *Limiter) Log(k Kind, attrs func() []any) {
	if leftOut, ok := l.Allow(k); ok {
		l.Write(k, leftOut, attrs)
	}
}

// Allow reports whether a line of this kind may be written now, and how many
// were left out since the last one. It is for callers that want to avoid the
// cost of a closure for lines that are left out, as most lines of a flood are.
func (l *Limiter) Allow(k Kind) (leftOut int, ok bool) {
	if !l.log.Enabled(noCaller, k.Level) {
		return 0, false
	}
	return l.allow(k, time.Now())
}

func (l *Limiter) allow(k Kind, now time.Time) (leftOut int, ok bool) {
	most := k.Max
	if most == 0 {
		most = usual
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.kinds[k]
	if b == nil {
		b = &burst{since: now}
		l.kinds[k] = b
	}
	if now.Sub(b.since) >= time.Second {
		b.since, b.lines = now, 0
	}
	if b.lines >= most {
		b.leftOut++
		return 0, false
	}
	b.lines++
	leftOut, b.leftOut = b.leftOut, 0
	return leftOut, true
}

// Write writes a line that [Limiter.Allow] allowed. It calls attrs, and the
// log's handler, in a goroutine of their own: the methods of errors and
// commands are user code, and may panic or end their goroutine. Then the line
// reports the crash instead of the result of attrs.
func (l *Limiter) Write(k Kind, leftOut int, attrs func() []any) {
	write := func(args ...any) {
		args = append([]any{"stage", k.Stage}, args...)
		if leftOut > 0 {
			args = append(args, "left_out_before", leftOut)
		}
		l.log.Log(noCaller, k.Level, k.Message, args...)
	}
	if broken := crash.Guard(k.Stage, func() error { write(attrs()...); return nil }); broken != nil {
		// a second crash cannot be reported: the report would need the same log
		_ = crash.Guard(k.Stage, func() error {
			write("reason", k.Reason, "unreadable", broken.Error())
			return nil
		})
	}
}

// Flush logs how many lines of each kind were left out after the last one that
// was written. It is for the end.
func (l *Limiter) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, b := range l.kinds {
		if b.leftOut > 0 {
			l.log.Log(noCaller, k.Level, k.Message, "stage", k.Stage, "reason", k.Reason, "left_out", b.leftOut)
		}
	}
}
