package source

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/golda-dev/golda/internal/feed"
)

// ErrEnded is wrapped by the errors of a submit that comes too late: the feed
// has ended, because its source has returned, or because the pipeline stops or
// has removed the stage. The command was not accepted.
var ErrEnded = feed.ErrEnded

// Source is a function that makes commands. It calls submit with each, and
// returns nil when there are no more. It must return soon after ctx has ended;
// its error does not matter then. Any other error, a panic and a runtime.Goexit
// are failures: the feed runs the source again, after a pause.
//
// A nil error of submit means that the command was accepted, and will end
// exactly once. Submit waits while the stage is full, drained, or refuses
// commands because of a rate or another limit. It returns an error that is
// [ErrEnded] once the feed has ended. The source should return the errors of
// submit. Several goroutines may call submit; their commands are accepted one
// after the other.
type Source[C any] func(ctx context.Context, submit func(C) error) error

// From makes a source that counts positions in its own way, such as offsets.
// The function is given the position to begin at: 0 in its first run, unless
// [Checkpoint] says otherwise. It submits each command with the position of the
// next one, which must not be lower than those before.
func From[C any](f func(ctx context.Context, from int64, submit func(cmd C, next int64) error) error) Source[C] {
	if f == nil {
		return feed.Refused[C]("From: the function is nil")
	}
	return func(ctx context.Context, submit func(C) error) error {
		at := feed.Of(ctx)
		return f(ctx, at.Position(), func(cmd C, next int64) error {
			return at.At(next, func() error { return submit(cmd) })
		})
	}
}

// Ends makes a source that hears the end of each of its commands: for a broker
// that wants to know which were done. The function submits each command with
// the function to call at its end. That is called once for each command that
// was accepted, when the pipeline has done with it and with all that it
// emitted, and is given nil or the error of the command: a [stage.CrashError],
// a [stage.JoinedError] if several failed, [stage.ErrStopped] if a hard stop
// ended it. It may be called before submit has returned and after the source
// has, by any goroutine, several at once. It must not block, since a worker may
// be that goroutine, and must not panic.
//
// The source deals with the errors: a command that failed leaves no letter in
// Pipeline.Failures, as if a caller waited for it.
//
// Without a feed such a source fails.
//
// [stage.CrashError]: https://pkg.go.dev/github.com/golda-dev/golda/stage#CrashError
// [stage.ErrStopped]: https://pkg.go.dev/github.com/golda-dev/golda/stage#pkg-variables
// [stage.JoinedError]: https://pkg.go.dev/github.com/golda-dev/golda/stage#JoinedError
func Ends[C any](f func(ctx context.Context, submit func(cmd C, ended func(err error)) error) error) Source[C] {
	if f == nil {
		return feed.Refused[C]("Ends: the function is nil")
	}
	return func(ctx context.Context, submit func(C) error) error {
		at := feed.Of(ctx)
		if at == nil {
			return Fatal(errNoFeed)
		}
		return f(ctx, func(cmd C, ended func(err error)) error {
			return at.Hear(ended, func() error { return submit(cmd) })
		})
	}
}

var errNoFeed = errors.New("source: Ends: there is no feed to hear from; pass the context of the source")

// SetAway reports that the source that was given ctx has no commands for now
// because of an error that it deals with itself, such as a broker that cannot
// be reached: the snapshot then shows the feed as "away", with that error. Nil
// ends that.
func SetAway(ctx context.Context, err error) { feed.Of(ctx).SetAway(err) }

// Position returns the position of the source that was given ctx, or a context
// derived from it: how many of its commands were accepted, in all of its runs,
// or the position that it passes to submit with [From]. At the beginning of a
// run it is where to continue. It returns 0 for any other context.
func Position(ctx context.Context) int64 { return feed.Of(ctx).Position() }

// SetTotal sets the last position of the source that was given ctx, so that the
// pipeline's snapshot shows its progress. A total of 0 is not known.
func SetTotal(ctx context.Context, total int64) { feed.Of(ctx).SetTotal(total) }

// Fatal marks an error of a source that a restart cannot help: if the source
// returns it, the feed gives up at once. It returns nil if err is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &feed.FatalError{Err: err}
}

// Checkpoint makes a source begin at a position, and calls save with the
// position up to which all commands have ended. If the process ends, or is
// killed, the next one begins where save was called last: commands that had not
// ended are submitted again, and some that had ended may be.
//
// A command has ended when the pipeline has done with it and with all that it
// emitted: with a result, with an error, or as a dead letter. Commands that
// failed count as ended, and leave a letter in Pipeline.Failures. Only the
// commands that a hard stop has ended do not count: a checkpoint never passes
// one of them, and they are submitted again by the next process.
//
// Save is called in one goroutine, with growing positions; while a call lasts,
// further ends are gathered into the next one. It is called for the last time
// when the pipeline has drained, before it stops. An error of save, or a panic,
// is a failure of the feed: the source is run again, and so is save. The
// context of save ends when it takes longer than the pipeline's grace at the
// end.
//
// Up to 16,384 commands may have been accepted behind the first that has not
// ended. Then submit waits for that one. If that takes more than a minute, the
// pipeline's log says which stages have commands, and again after two further
// minutes, four, and so on.
//
// Behind a checkpoint a window must be closed by a time, or by fewer commands
// than that, or it waits for ever: pipeline.New refuses one that needs more.
// After a kill its commands are in windows again, of which some were passed on
// before. For windows and sums that go on exactly where they were there is
// pipeline.Checkpoint, which saves their states with the position.
//
// pipeline.New refuses a checkpoint whose src or save is nil, or whose from is
// below zero.
func Checkpoint[C any](src Source[C], from int64, save func(ctx context.Context, position int64) error) Source[C] {
	switch err := feed.Check(src); {
	case src == nil:
		return feed.Refused[C]("Checkpoint: %w", err)
	case err != nil:
		return src // its own error is reported
	case from < 0:
		return feed.Refused[C]("Checkpoint: the position %d must not be negative", from)
	case save == nil:
		return feed.Refused[C]("Checkpoint: the function that saves is nil")
	}
	saved := func(ctx context.Context, submit func(C) error) error {
		feed.Of(ctx).Begin(from, save)
		return src(ctx, submit)
	}
	feed.Mark(saved)
	return saved
}

// Seq makes a source of a sequence. A run that continues ranges over seq again
// and skips the values that were accepted, so seq should be one that can be
// ranged over more than once. Its position is the number of values. If it ends
// before the position of a [Checkpoint], or of a run that continues, that is an
// error that ends the feed.
func Seq[C any](seq iter.Seq[C]) Source[C] {
	if seq == nil {
		return feed.Refused[C]("Seq: the sequence is nil")
	}
	return func(ctx context.Context, submit func(C) error) error {
		from := Position(ctx)
		skip := from
		for cmd := range seq {
			if skip > 0 {
				skip--
				continue
			}
			if err := submit(cmd); err != nil {
				return err
			}
		}
		if skip > 0 {
			return Fatal(fmt.Errorf("source: Seq: the position %d is behind the end at %d", from, from-skip))
		}
		return nil
	}
}

// Slice makes a source of the elements of a slice, which must not be changed
// meanwhile. Its position is an index, and its total the length. A position
// behind that, as of a [Checkpoint] that was saved for a longer slice, is an
// error that ends the feed.
func Slice[C any](cmds []C) Source[C] {
	return func(ctx context.Context, submit func(C) error) error {
		from, end := Position(ctx), int64(len(cmds))
		SetTotal(ctx, end)
		if from > end {
			return Fatal(fmt.Errorf("source: Slice: the position %d is behind the end at %d", from, end))
		}
		some := feed.Some(ctx, submit)
		for at := from; at < end; {
			if some != nil {
				next := at + 1
				n := some(cmds[at:min(end, at+feed.MostAtOnce)], func(i int) int64 { return next + int64(i) })
				if at += int64(n); n > 0 {
					continue
				}
			}
			if err := submit(cmds[at]); err != nil {
				return err
			}
			at++
		}
		return nil
	}
}

// Chan makes a source of a channel, which is exhausted when the channel is
// closed. When the feed ends before, at most one value was received and not
// accepted. It counts as refused in the pipeline's snapshot. Close the channel
// before the pipeline stops, and let Run return by itself, if that matters.
func Chan[C any](ch <-chan C) Source[C] {
	if ch == nil {
		return feed.Refused[C]("Chan: the channel is nil, and would never have a value")
	}
	return func(ctx context.Context, submit func(C) error) error {
		for {
			select {
			case cmd, ok := <-ch:
				if !ok {
					return nil
				}
				if err := submit(cmd); err != nil {
					return err
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}
