package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/control"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/logs"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// letter returns the letter of a command that ended without an answer, or with an error that leaves a letter.
func (p *Pipeline) letter(end inbox.Ending) (letter stage.DeadLetter, crash *stage.CrashError) {
	letter = stage.DeadLetter{
		Pipeline: p.name, Stage: end.Inbox.Name(), Command: end.Cmd, Reason: end.Reason,
		Err: end.Err, Attempts: end.Tries, At: end.At,
	}
	if end.From > 0 {
		letter.EmittedBy = p.stages().all[end.From-1].Name()
	}
	if letter.Reason == reason.Error {
		return letter, nil // the error is the handler's, and its methods are user code
	}
	crash, ok := errors.AsType[*stage.CrashError](letter.Err)
	if ok {
		letter.Stack = crash.Stack
	}
	return letter, crash
}

// keep stores a letter. Inboxes call it for every command that leaves a letter, before its ticket ends.
func (p *Pipeline) keep(end inbox.Ending) {
	letter, crash := p.letter(end)
	p.letters.box.Keep(&letter, crash)
}

// ended notifies the subscribers of a letter. Inboxes call it for the same commands as keep, after the ticket ends.
func (p *Pipeline) ended(end inbox.Ending) {
	letter, _ := p.letter(end)
	if end.Reason == reason.MaxInFlight {
		const message = "commands refused: as many are in flight as pipeline.MaxInFlight allows"
		p.letters.notifier.NotifyLimited(letter, message, p.host.MaxInFlight)
		return
	}
	p.letters.notifier.Notify(letter)
}

// filled notifies the policies that an inbox has become full. The inbox calls it with its lock held.
func (p *Pipeline) filled(in *inbox.Inbox) {
	p.control.Notify(control.Event{Kind: controller.EventQueueFull, Inbox: in})
}

// died notifies the policies that a worker of a stage, or of the pool that the stage shares, has crashed.
func (p *Pipeline) died(stage string) {
	in := p.inbox(stage)
	if in == nil {
		return
	}
	pool := stage
	if sp := in.Pool(); sp != nil {
		pool = sp.Name()
	}
	p.control.Notify(control.Event{Kind: controller.EventWorkerDied, Inbox: in, Pool: pool})
}

// resubmit submits the command of a letter again.
func (p *Pipeline) resubmit(ctx context.Context, name string, cmd any) error {
	for _, c := range p.stages().stages {
		if c.Name() == name {
			return c.Resubmit(ctx, cmd)
		}
	}
	return fmt.Errorf("pipeline %q: stage %q: %w", p.name, name, ErrNotPart)
}

// crashed logs a crash of a handler; workers call it for every crash. A crash after which the command is tried again is no
// warning.
func (p *Pipeline) crashed(e *stage.CrashError, again bool) {
	p.died(e.Stage)
	level := slog.LevelWarn
	if again {
		level = slog.LevelInfo
	}
	k := logs.Kind{Level: level, Message: "handler crashed", Stage: e.Stage, Reason: string(reason.Crash)}
	p.limiter.Log(k, func() []any {
		args := []any{"attempt", e.Attempts, "again", again}
		if e.Version != "" {
			args = append(args, "version", e.Version)
		}
		return append(args, "panic", plain.Text(e.Value), "stack", string(e.Stack))
	})
}
