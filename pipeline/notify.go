package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/control"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	stores "github.com/golda-dev/golda/internal/letters"
	"github.com/golda-dev/golda/internal/logs"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// letter returns the letter of a command that ended without an answer, or with
// an error that leaves a letter.
func (p *Pipeline) letter(end inbox.Ending) (letter stage.DeadLetter, crash *stage.CrashError) {
	letter = stage.DeadLetter{
		Pipeline: p.life.name, Stage: end.Inbox.Name(), Command: end.Cmd, Reason: end.Reason,
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

// keep stores a letter. Inboxes call it for every command that ends without an
// answer or fails, before its ticket ends.
func (p *Pipeline) keep(end inbox.Ending) (id uint64) {
	if end.Answered {
		return 0
	}
	letter, crash := p.letter(end)
	comesAgain := end.ComesAgain && !p.wasDone(end.Err) // in the file, it would be handled twice
	return p.letters.box.Keep(&letter, crash, end.Heard || comesAgain, end.Park)
}

// ended notifies the subscribers of a letter. Inboxes call it for the same
// commands as keep, after the ticket ends.
func (p *Pipeline) ended(end inbox.Ending) {
	if end.Answered {
		return
	}
	letter, crash := p.letter(end)
	switch {
	case end.Reason == reason.MaxInFlight:
		const message = "commands refused: as many are in flight as pipeline.MaxInFlight allows"
		p.letters.notifier.NotifyLimited(letter, message, p.host.MaxInFlight)
	case end.Reason == reason.Crash && crash != nil:
		p.letters.notifier.NotifyCrash(letter, end.Letter, crash)
	default:
		p.letters.notifier.Notify(letter, end.Letter)
	}
}

// keyOf returns the key of a command of the stage of that name, and whether
// that stage is keyed.
func (p *Pipeline) keyOf(name string, cmd any) (key any, keyed bool) {
	for _, c := range p.stages().stages {
		if c.Name() == name {
			return c.Spec().KeyOf(cmd)
		}
	}
	return nil, false
}

// filled notifies the policies that an inbox has become full. The inbox calls
// it with its lock held.
func (p *Pipeline) filled(in *inbox.Inbox) {
	p.control.Notify(control.Event{Kind: controller.EventQueueFull, Inbox: in})
}

// died notifies the policies that a worker of a stage, or of the pool that the
// stage shares, has crashed.
func (p *Pipeline) died(stage string) {
	in := p.inbox(stage)
	if in == nil {
		return
	}
	pool := stage
	if sp := in.Settings().Pool(); sp != nil {
		pool = sp.Name()
	}
	p.control.Notify(control.Event{Kind: controller.EventWorkerDied, Inbox: in, Pool: pool})
}

// resubmit submits the command of a letter again, before all others of its key
// if the letter parks the key. Ended, unless it is nil, is called when the
// command has ended.
func (p *Pipeline) resubmit(ctx context.Context, name string, cmd any, park *inbox.Park, ended func(error)) error {
	if c := p.core(name); c != nil {
		return c.Resubmit(ctx, cmd, park, ended)
	}
	return fmt.Errorf("pipeline %q: stage %q: %w", p.life.name, name, ErrNotPart)
}

// core returns the stage of that name; nil if there is none.
func (p *Pipeline) core(name string) *engine.Core {
	for _, c := range p.stages().stages {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// parkFor parks the key of the command of a letter that was read from a file or
// imported, if its stage parks keys.
func (p *Pipeline) parkFor(l *stores.Letter) *inbox.Park {
	c := p.core(l.Stage)
	switch {
	case c == nil || !c.Inbox().Settings().Parks():
		return nil
	case l.Missing != nil || c.CheckType(l.Command) != nil:
		p.log.Warn("a letter parks no key, since its command cannot be read", "stage", l.Stage, "letter", l.ID)
		return nil
	default:
		return c.Inbox().Settings().ParkKey(l.Command)
	}
}

// unparked notes in the journal that keys go on without the commands of their
// letters.
func (p *Pipeline) unparked(stage string, keys uint64) {
	p.control.Note("letters", "parked keys", stage, keys, 0, "a full store has dropped their letters")
}

// crashed logs a crash of a handler after which the command is tried again;
// workers call it for every crash. One that ends its command is logged with the
// letter, see [stores.Notifier.NotifyCrash], so that a crash has one line.
func (p *Pipeline) crashed(e *stage.CrashError, again bool, cmd any) {
	p.died(e.Stage)
	if again {
		p.limiter.Crash(e, again, func() []any { return p.letters.notifier.Describe(e.Stage, cmd) })
	}
}

// slowed logs that a stage pauses, because its workers crash one after another.
func (p *Pipeline) slowed(in *inbox.Inbox, crashes int) {
	p.limiter.Log(logs.Kind{Level: slog.LevelWarn, Message: "a stage pauses between crashes", Stage: in.Name()}, func() []any {
		return []any{"crashes in a row", crashes}
	})
}

// recovered logs that a stage which paused has completed a command.
func (p *Pipeline) recovered(in *inbox.Inbox, crashes int) {
	p.limiter.Log(logs.Kind{Level: slog.LevelInfo, Message: "a stage completes commands again", Stage: in.Name()}, func() []any {
		return []any{"crashes in a row", crashes}
	})
}

// codecOf returns the codec for the letters of the stage of that name.
func (p *Pipeline) codecOf(name string) (stores.Codec, error) {
	for _, c := range p.stages().stages {
		if c.Name() == name {
			return p.set.codecFor(c)
		}
	}
	return stores.Codec{}, fmt.Errorf("stage %q: %w", name, ErrNotPart)
}

// sizeOf returns the size of a command of the stage of that name, if the user
// has said how large such commands are.
func (p *Pipeline) sizeOf(name string, cmd any) (bytes int, ok bool) {
	for _, c := range p.stages().stages {
		if c.Name() == name {
			if size := p.set.types[c.Spec().Type()].Size; size != nil {
				return size(cmd), true
			}
		}
	}
	return 0, false
}

// openLetters reads the letters of earlier processes.
func (p *Pipeline) openLetters() error {
	if p.set.keep.Dir == "" {
		return nil
	}
	if err := p.letters.box.Open(stores.Home{Dir: p.set.keep.Dir, Pipeline: p.life.name, Codecs: p.codecOf, Log: p.log}); err != nil {
		return err
	}
	p.letters.box.Park()
	return nil
}

// closeLetters ends the stores of letters. It returns how many letters could
// not be written to their files, and why.
func (p *Pipeline) closeLetters() (unwritten int, err error) {
	if unwritten, err = p.letters.box.Close(); err != nil {
		p.log.Error("letters are lost: their files could not be written", "directory", p.set.keep.Dir, "letters", unwritten, "reason", err)
	}
	return unwritten, err
}
