package letters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/logs"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// Notifier delivers letters to the subscribers of a pipeline, and logs the
// letters that no subscriber takes.
//
// A subscriber is a function of the user. It is called for one letter at a
// time, in order, on a goroutine of its own; up to 1,024 letters wait for it.
// When they do, the goroutine that delivers the next letter waits too, but no
// longer than 5 s for a function that does not return: then the letters that
// find the queue full are logged until it does.
type Notifier struct {
	log *logs.Limiter
	set Log

	dead, failures []*subscriber
}

// Log configures the log lines of letters.
type Log struct {
	Show bool                                              // the commands themselves
	Key  func(stage string, cmd any) (key any, keyed bool) // calls user code; nil if there are no keys
}

// NewNotifier returns a notifier for subscribers to dead letters and to
// failures.
func NewNotifier(log *logs.Limiter, set Log, dead, failures []func(stage.DeadLetter)) *Notifier {
	n := &Notifier{log: log, set: set}
	n.dead, n.failures = n.subscribers("dead-letter", dead), n.subscribers("failure", failures)
	return n
}

// subscribers returns a subscriber for each of the user's functions.
func (n *Notifier) subscribers(kind string, fs []func(stage.DeadLetter)) (all []*subscriber) {
	report := func(letter stage.DeadLetter, what string, attrs ...any) {
		n.log.Log(lineOf(slog.LevelError, kind+what, &letter), func() []any { return attrs })
	}
	for _, f := range fs {
		all = append(all, newSubscriber(f, func(letter stage.DeadLetter, err error) {
			if crash, ok := errors.AsType[*stage.CrashError](err); ok {
				crash.Stage = letter.Stage
			}
			report(letter, " subscriber crashed", slog.Any("error", err))
			n.write(&letter, 0)
		}, func(letter stage.DeadLetter) {
			report(letter, " subscriber does not return", "for", patience, "waiting", maxQueued)
		}))
	}
	return all
}

// Notify delivers a letter to the subscribers to its kind, or logs it with its
// number if there are none. If a subscriber does not take the letter, it is
// logged. Notify may wait for a slow subscriber; see [Notifier].
func (n *Notifier) Notify(letter stage.DeadLetter, id uint64) {
	to := n.to(letter.Reason)
	if len(to) == 0 {
		n.write(&letter, id)
	}
	n.deliver(to, letter, id)
}

// NotifyCrash is like [Notifier.Notify], for a letter of a command that crashed
// its handler. The crash is logged whether there are subscribers or not: one
// line names the crashed handler, the place, and the command.
func (n *Notifier) NotifyCrash(letter stage.DeadLetter, id uint64, crash *stage.CrashError) {
	n.log.Crash(crash, false, func() []any { return n.describe(&letter, id) })
	n.deliver(n.to(letter.Reason), letter, id)
}

// NotifyLimited is like [Notifier.Notify], for a letter of a command that was
// refused because a limit was reached. It logs the message and the limit, at
// most once a second; if there are no subscribers, that is in place of the
// letter.
func (n *Notifier) NotifyLimited(letter stage.DeadLetter, message string, limit int) {
	n.log.Log(lineOf(slog.LevelWarn, message, &letter), func() []any { return []any{"limit", limit} })
	n.deliver(n.to(letter.Reason), letter, 0)
}

func (n *Notifier) deliver(to []*subscriber, letter stage.DeadLetter, id uint64) {
	for _, s := range to {
		if !s.notify(letter) {
			n.write(&letter, id)
		}
	}
}

// to returns the subscribers to letters of a reason.
func (n *Notifier) to(why reason.Reason) []*subscriber {
	if why == reason.Error {
		return n.failures
	}
	return n.dead
}

func (n *Notifier) all() []*subscriber { return slices.Concat(n.dead, n.failures) }

// Wait waits until the subscribers have taken all letters: the queued letters,
// and the letters that ended commands are still about to leave, as long as
// pending reports true. It waits no longer than until ctx ends, and after the
// first pass for at most lastMoment for pending letters.
func (n *Notifier) Wait(ctx context.Context, pending func() bool, lastMoment time.Duration) {
	var deadline time.Time
	for {
		// before rest: letters that have arrived by now are in the queues, and
		// rest waits for them
		more := pending()
		for _, s := range n.all() {
			s.rest(ctx)
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(lastMoment)
		}
		if !more || ctx.Err() != nil || time.Now().After(deadline) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Close ends the subscribers, and logs the letters that they have not taken.
func (n *Notifier) Close() { n.closeIf((*subscriber).anyLocked) }

// CloseBehind does the same with the subscribers that are behind: they have not
// taken all letters of commands that ended before a time.
func (n *Notifier) CloseBehind(at time.Time) {
	n.closeIf(func(s *subscriber) bool { return s.behindLocked(at) })
}

func (n *Notifier) closeIf(match func(*subscriber) bool) {
	for _, s := range n.all() {
		for _, letter := range s.close(match) {
			n.write(&letter, 0)
		}
	}
}

// Undelivered returns how many letters subscribers have not taken.
func (n *Notifier) Undelivered() (count int) {
	for _, s := range n.all() {
		count += s.undelivered()
	}
	return count
}

// write logs a letter. The id is its number in its store; 0 if it is not known.
func (n *Notifier) write(letter *stage.DeadLetter, id uint64) {
	message := "dead letter"
	if letter.Reason == reason.Error {
		message = "command failed"
	}
	k := lineOf(slog.LevelWarn, message, letter)
	leftOut, ok := n.log.Allow(k)
	if !ok {
		return
	}
	l := *letter // copied only now, because a copy that a closure refers to is allocated
	n.log.Write(k, leftOut, func() []any {
		return append([]any{"reason", l.Reason, "attempts", l.Attempts, "error", l.Err}, n.describe(&l, id)...)
	})
}

// lineOf returns the kind of a log line about a letter. A limit on commands in
// flight, once reached, refuses very many commands, so a line a second about it
// is enough.
func lineOf(level slog.Level, message string, letter *stage.DeadLetter) logs.Kind {
	k := logs.Kind{Level: level, Message: message, Stage: letter.Stage, Reason: string(letter.Reason)}
	if letter.Reason == reason.MaxInFlight {
		k.Max = 1
	}
	return k
}

// maxKey is how many bytes of a key the log shows.
const maxKey = 64

// describe returns which command a letter is of: its type, the number of the
// letter, and its key. The command itself is not read, unless the user wants
// the log to show it: it may have personal data in it, and the program may be
// changing it. The function for the key reads it; the user has said that keys
// do not change.
func (n *Notifier) describe(l *stage.DeadLetter, id uint64) []any {
	args := []any{"command", fmt.Sprintf("%T", l.Command)}
	if id > 0 {
		args = append(args, "letter", id)
	}
	if l.EmittedBy != "" {
		args = append(args, "emitted_by", l.EmittedBy)
	}
	args = n.appendKey(args, l.Stage, l.Command)
	if n.set.Show && !inUse(l) { // its handler may be writing to it
		args = append(args, "value", logs.Payload(l.Command))
	}
	return args
}

// Describe returns attributes for a log line about a command that is tried
// again: its type, and its key. It does not show the command, whatever the log
// was asked to: another handler may have begun to change it. If cmd is nil there
// are none: no command was charged with the crash.
func (n *Notifier) Describe(of string, cmd any) []any {
	if cmd == nil {
		return nil
	}
	return n.appendKey([]any{"command", fmt.Sprintf("%T", cmd)}, of, cmd)
}

// appendKey appends the key of a command, if its stage is keyed.
func (n *Notifier) appendKey(args []any, of string, cmd any) []any {
	if n.set.Key == nil {
		return args
	}
	if key, keyed := n.set.Key(of, cmd); keyed {
		args = append(args, "key", plain.Brief(key, maxKey))
	}
	return args
}
