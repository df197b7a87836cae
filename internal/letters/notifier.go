package letters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/logs"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// Notifier delivers letters to the subscribers of a pipeline, and logs the letters that no subscriber takes.
//
// A subscriber is a function of the user. It is called for one letter at a time, in order, on a goroutine of its own; up to
// 1,024 letters wait for it. When they do, the goroutine that delivers the next letter waits too, but no longer than 5 s for
// a function that does not return: then the letters that find the queue full are logged until it does.
type Notifier struct {
	log  *logs.Limiter
	hide bool // the log shows only the types of commands

	dead, failures []*subscriber
}

// NewNotifier returns a notifier for subscribers to dead letters and to failures. If hide is true, the log shows only the
// types of commands.
func NewNotifier(log *logs.Limiter, hide bool, dead, failures []func(stage.DeadLetter)) *Notifier {
	n := &Notifier{log: log, hide: hide}
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
			n.write(&letter)
		}, func(letter stage.DeadLetter) {
			report(letter, " subscriber does not return", "for", patience, "waiting", maxQueued)
		}))
	}
	return all
}

// Notify delivers a letter to the subscribers to its kind, or logs it if there are none. A subscriber that does not take
// it has it logged. Notify may wait for a slow subscriber; see [Notifier].
func (n *Notifier) Notify(letter stage.DeadLetter) {
	to := n.to(letter.Reason)
	if len(to) == 0 {
		n.write(&letter)
	}
	n.deliver(to, letter)
}

// NotifyLimited is like [Notifier.Notify], for a letter of a command that was refused because a limit was reached. It logs
// the message and the limit, at most once a second; if there are no subscribers, that is in place of the letter.
func (n *Notifier) NotifyLimited(letter stage.DeadLetter, message string, limit int) {
	n.log.Log(lineOf(slog.LevelWarn, message, &letter), func() []any { return []any{"limit", limit} })
	n.deliver(n.to(letter.Reason), letter)
}

func (n *Notifier) deliver(to []*subscriber, letter stage.DeadLetter) {
	for _, s := range to {
		if !s.notify(letter) {
			n.write(&letter)
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

// Wait waits until the subscribers have taken all letters: those that are queued, and those that commands which have ended
// are still about to leave, as long as pending reports true. It waits no longer than until ctx ends, and after the first
// pass for at most lastMoment for pending letters.
func (n *Notifier) Wait(ctx context.Context, pending func() bool, lastMoment time.Duration) {
	var deadline time.Time
	for {
		more := pending() // before rest: letters that have come by now are in the queues, and rest waits for them
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

// Close ends the subscribers, and logs the letters that they have not taken. If onlyBehind is true, it ends only those
// that have not taken all letters.
func (n *Notifier) Close(onlyBehind bool) {
	for _, s := range n.all() {
		for _, letter := range s.close(onlyBehind) {
			n.write(&letter)
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

// write logs a letter.
func (n *Notifier) write(letter *stage.DeadLetter) {
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
		args := []any{"reason", l.Reason, "attempts", l.Attempts, "error", l.Err, "command", n.payload(&l)}
		if l.EmittedBy != "" {
			args = append(args, "emitted_by", l.EmittedBy)
		}
		return args
	})
}

// lineOf returns the kind of a log line about a letter. A limit on commands in flight, once reached, refuses very many
// commands, so a line a second about it is enough.
func lineOf(level slog.Level, message string, letter *stage.DeadLetter) logs.Kind {
	k := logs.Kind{Level: level, Message: message, Stage: letter.Stage, Reason: string(letter.Reason)}
	if letter.Reason == reason.MaxInFlight {
		k.Max = 1
	}
	return k
}

// payload returns the command of a letter as the log shows it. A command whose handler has not returned may be written to
// while it is read, so only its type is shown.
func (n *Notifier) payload(letter *stage.DeadLetter) any {
	if n.hide || letter.Reason != reason.Error && errors.Is(letter.Err, stage.ErrStuck) {
		return fmt.Sprintf("%T", letter.Command)
	}
	return logs.Payload(letter.Command)
}
