package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/worker"
)

// letter is what is told of a command that ended without an answer, or with an error that leaves a letter.
func (p *Pipeline) letter(end inbox.Ending) stage.DeadLetter {
	letter := stage.DeadLetter{
		Pipeline: p.name, Stage: end.Inbox.Name(), Command: end.Cmd, Reason: stage.Reason(end.Reason),
		Err: end.Err, Attempts: end.Tries, At: end.At,
	}
	if end.From > 0 {
		letter.EmittedBy = p.stages().all[end.From-1].Name()
	}
	return letter
}

// addStack adds the stack to the letter of a command that crashed its handler, and returns the crash.
func addStack(letter *stage.DeadLetter) *stage.CrashError {
	if letter.Reason == stage.ReasonError {
		return nil // the error is the handler's, and its methods a user's code
	}
	crash, ok := errors.AsType[*stage.CrashError](letter.Err)
	if ok {
		letter.Stack = crash.Stack
	}
	return crash
}

// keep is told by the inboxes of every command that leaves a letter, before its ticket is.
func (p *Pipeline) keep(end inbox.Ending) {
	letter := p.letter(end)
	crash := addStack(&letter)
	p.box.keep(&letter, crash)
}

// ended is told of the same, after the ticket.
func (p *Pipeline) ended(end inbox.Ending) {
	letter := p.letter(end)
	_ = addStack(&letter)
	hearers := p.deadLetterSubscribers
	if end.Reason == inbox.ReasonError {
		hearers = p.failureSubscribers
	}
	if end.Reason == inbox.ReasonMaxInFlight {
		p.hush.log(p.set.log, slog.LevelWarn, "commands refused: as many are in flight as pipeline.MaxInFlight allows",
			letter.Stage, letter.Reason, func() []any { return []any{"limit", p.host.MaxInFlight} })
	} else if len(hearers) == 0 {
		p.write(&letter)
	}
	for _, s := range hearers {
		if !s.notify(letter) {
			p.write(&letter)
		}
	}
}

// newSubscribers makes the subscribers that call functions of the user's.
func (p *Pipeline) newSubscribers(what string, fs []func(stage.DeadLetter)) (all []*subscriber) {
	for _, f := range fs {
		all = append(all, newSubscriber(f, func(letter stage.DeadLetter, err error) {
			if crash, ok := errors.AsType[*stage.CrashError](err); ok {
				crash.Stage = letter.Stage
			}
			p.hush.log(p.set.log, slog.LevelError, what+" subscriber crashed", letter.Stage, letter.Reason, func() []any {
				return []any{slog.Any("error", err)}
			})
			p.write(&letter)
		}, func(letter stage.DeadLetter) {
			p.hush.log(p.set.log, slog.LevelError, what+" subscriber does not return", letter.Stage, letter.Reason, func() []any {
				return []any{"for", patience, "waiting", mostUntold}
			})
		}))
	}
	return all
}

// subscribers returns those of dead letters and those of failures.
func (p *Pipeline) subscribers() []*subscriber {
	return slices.Concat(p.deadLetterSubscribers, p.failureSubscribers)
}

// waitForSubscribers waits until the subscribers have been told of all letters, and ends them. What they do not take in time is
// logged. After a soft stop they have time until the stop's patience ends, and then the grace; after a hard one, until the
// end of its grace, or for a moment, if they were not behind then.
func (p *Pipeline) waitForSubscribers(hard bool, grace time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if hard {
		defer time.AfterFunc(max(time.Until(grace), lastMoment), cancel).Stop()
	} else {
		go func() {
			select {
			case <-p.hurry:
				defer time.AfterFunc(p.grace(), cancel).Stop()
				<-ctx.Done()
			case <-ctx.Done():
			}
		}()
	}
	var late time.Time
	for {
		told := p.allNotified() // asked first: what is told now is in the queues, and rest waits for it
		for _, s := range p.subscribers() {
			s.rest(ctx)
		}
		if late.IsZero() {
			late = time.Now().Add(lastMoment)
		}
		if told || ctx.Err() != nil || time.Now().After(late) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	p.dismiss(false)
}

// allNotified reports whether all commands that ended unanswered have been told. They are booked before, and some by goroutines
// that a stop does not wait for, those of submitters.
func (p *Pipeline) allNotified() bool {
	var ended uint64
	for _, sheet := range inbox.Counts(p.stages().all) {
		ended += inbox.Sum(sheet.Shed) + inbox.Sum(sheet.Dead)
	}
	return p.host.DeadLettered() >= ended
}

// dismiss ends the subscribers; if behind, only those that have not been told of all letters.
func (p *Pipeline) dismiss(behind bool) {
	for _, s := range p.subscribers() {
		for _, letter := range s.close(behind) {
			p.write(&letter)
		}
	}
}

// undelivered returns how many letters subscribers were not told of.
func (p *Pipeline) undelivered() (n int) {
	for _, s := range p.subscribers() {
		n += s.undelivered()
	}
	return n
}

// write logs a letter.
func (p *Pipeline) write(letter *stage.DeadLetter) {
	message := "dead letter"
	if letter.Reason == stage.ReasonError {
		message = "command failed"
	}
	k := kind{slog.LevelWarn, message, letter.Stage, letter.Reason}
	missed, ok := p.hush.turn(p.set.log, k)
	if !ok { // as most are not of a flood
		return
	}
	l := *letter
	writeLine(p.set.log, k, missed, func() []any {
		args := []any{"reason", l.Reason, "attempts", l.Attempts, "error", l.Err, "command", p.payload(&l)}
		if l.EmittedBy != "" {
			args = append(args, "emitted_by", l.EmittedBy)
		}
		return args
	})
}

// payload is the command of a letter as the log shows it. A command whose handler has not returned may be written to
// while it is read: of that only the type is shown.
func (p *Pipeline) payload(letter *stage.DeadLetter) any {
	if p.set.hide || letter.Reason != stage.ReasonError && errors.Is(letter.Err, stage.ErrStuck) {
		return fmt.Sprintf("%T", letter.Command)
	}
	return shown(letter.Command)
}

// filled is told by the inboxes that they have become full. Their locks are held.
func (p *Pipeline) filled(in *inbox.Inbox) {
	p.control.notify(loopEvent{kind: controller.EventQueueFull, room: in})
}

// died tells the policies that a worker has crashed, and whose it was.
func (p *Pipeline) died(stage string) {
	in := p.inbox(stage)
	if in == nil {
		return
	}
	pool := stage
	if sp := in.Pool(); sp != nil {
		pool = sp.Name()
	}
	p.control.notify(loopEvent{kind: controller.EventWorkerDied, room: in, pool: pool})
}

// resubmit hands in a command again for which there is a letter.
func (p *Pipeline) resubmit(ctx context.Context, name string, cmd any) error {
	for _, c := range p.stages().stages {
		if c.Name() == name {
			return c.Resubmit(ctx, cmd)
		}
	}
	return fmt.Errorf("pipeline %q: stage %q: %w", p.name, name, ErrNoSuchStage)
}

// inbox is the inbox of a stage by its name.
func (p *Pipeline) inbox(name string) *inbox.Inbox {
	for _, c := range p.stages().stages {
		if c.Name() == name {
			return c.Inbox()
		}
	}
	return nil
}

// crashed is told by the workers of every crash of a handler. One that only costs
// another try is worth knowing, but no warning.
func (p *Pipeline) crashed(e *stage.CrashError, again bool) {
	p.died(e.Stage)
	level := slog.LevelWarn
	if again {
		level = slog.LevelInfo
	}
	p.hush.log(p.set.log, level, "handler crashed", e.Stage, stage.ReasonCrash, func() []any {
		args := []any{"attempt", e.Attempts, "again", again}
		if e.Version != "" {
			args = append(args, "version", e.Version)
		}
		return append(args, "panic", plain.Text(e.Value), "stack", string(e.Stack))
	})
}

// shielded is a log handler whose panics go no further: it is a user's code, and is
// called in the middle of a batch. They cannot be told: it is what we tell with.
type shielded struct{ slog.Handler }

// Handle passes a record on.
func (h shielded) Handle(ctx context.Context, r slog.Record) error {
	defer func() { _ = recover() }()
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the shield.
func (h shielded) WithAttrs(as []slog.Attr) slog.Handler { return shielded{h.Handler.WithAttrs(as)} }

// WithGroup keeps the shield.
func (h shielded) WithGroup(name string) slog.Handler { return shielded{h.Handler.WithGroup(name)} }

// noCaller is the context of lines that belong to no caller.
var noCaller = context.Background()

// loud is how many lines of one kind are logged in a second; the next second
// begins with how many were left out.
const loud = 10

// logLimiter keeps a flood of like messages from becoming a flood of lines.
type logLimiter struct {
	mu    sync.Mutex // guards kinds
	kinds map[kind]*burst
}

type kind struct {
	level          slog.Level
	message, stage string
	reason         stage.Reason
}

// loud is how many lines of the kind are logged in a second.
func (k kind) loud() int {
	if k.reason == stage.ReasonMaxInFlight {
		return 1
	}
	return loud
}

type burst struct {
	since   time.Time
	lines   int
	silence int // lines left out
}

// log writes a line, unless there were too many like it; see [writeLine].
func (l *logLimiter) log(log *slog.Logger, level slog.Level, message, name string, reason stage.Reason, says func() []any) {
	k := kind{level, message, name, reason}
	if missed, ok := l.turn(log, k); ok {
		writeLine(log, k, missed, says)
	}
}

// turn reports whether a line of a kind is to be written now, and how many were not since the last one that was.
func (l *logLimiter) turn(log *slog.Logger, k kind) (missed int, ok bool) {
	if !log.Enabled(noCaller, k.level) {
		return 0, false
	}
	ok, missed = l.allow(k, time.Now())
	return missed, ok
}

// writeLine writes a line. What it says is only worked out now, and in a goroutine of its own: the methods of errors and commands
// are a user's code. If they end that goroutine, the line says so instead.
func writeLine(log *slog.Logger, k kind, missed int, says func() []any) {
	write := func(args ...any) {
		args = append([]any{"stage", k.stage}, args...)
		if missed > 0 {
			args = append(args, "left_out_before", missed)
		}
		log.Log(noCaller, k.level, k.message, args...)
	}
	if crash := worker.Guard(k.stage, func() error { write(says()...); return nil }); crash != nil {
		_ = worker.Guard(k.stage, func() error { // another crash cannot be told: it is what we tell with
			write("reason", k.reason, "unreadable", crash.Error())
			return nil
		})
	}
}

// allow reports whether a line of this kind may be written now, and how many
// were not since the last one that was.
func (l *logLimiter) allow(k kind, now time.Time) (ok bool, missed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.kinds[k]
	if f == nil {
		if l.kinds == nil {
			l.kinds = map[kind]*burst{}
		}
		f = &burst{since: now}
		l.kinds[k] = f
	}
	if now.Sub(f.since) >= time.Second {
		f.since, f.lines = now, 0
	}
	if f.lines >= k.loud() {
		f.silence++
		return false, 0
	}
	f.lines++
	missed, f.silence = f.silence, 0
	return true, missed
}

// rest tells how many lines were left out in the end.
func (l *logLimiter) rest(log *slog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, f := range l.kinds {
		if f.silence > 0 {
			log.Log(noCaller, k.level, k.message, "stage", k.stage, "reason", k.reason, "left_out", f.silence)
		}
	}
}
