package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

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

// waitForSubscribers waits until the subscribers have taken all letters, and ends them. Letters that they do not take in
// time are logged. After a soft stop the subscribers have time until the context of Stop ends, and then the grace; after a
// hard stop, until the end of its grace, or for lastMoment if they were not behind then.
func (p *Pipeline) waitForSubscribers(hard bool, grace time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if hard {
		defer time.AfterFunc(max(time.Until(grace), lastMoment), cancel).Stop()
	} else {
		go func() {
			select {
			case <-p.hard:
				defer time.AfterFunc(p.grace(), cancel).Stop()
				<-ctx.Done()
			case <-ctx.Done():
			}
		}()
	}
	p.letters.notifier.Wait(ctx, p.lettersPending, lastMoment)
	p.letters.notifier.Close(false)
}

// lettersPending reports whether some commands ended unanswered for which ended was not called yet. Commands are counted
// before, and some by goroutines that a stop does not wait for: those of submitters.
func (p *Pipeline) lettersPending() bool {
	var ended uint64
	for _, a := range inbox.Counts(p.stages().all) {
		ended += inbox.Sum(a.Shed) + inbox.Sum(a.Dead)
	}
	return p.host.DeadLettered() < ended
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

// inbox returns the inbox of the stage of that name, nil if there is none.
func (p *Pipeline) inbox(name string) *inbox.Inbox {
	for _, c := range p.stages().stages {
		if c.Name() == name {
			return c.Inbox()
		}
	}
	return nil
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
