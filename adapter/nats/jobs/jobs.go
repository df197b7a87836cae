// Package jobs has the words of job queues: when a job is due, whether it is
// the only one of its kind, and how a periodic one is declared. The inlets of
// package adapter/nats with Options.Jobs are job queues:
//
//	mails, err := nats.NewInlet(ctx, conn, "mails", nats.Options[Mail]{Jobs: true})
//	…
//	added, err := mails.PublishJob(ctx, jobs.Spec{ID: mail.ID, In: time.Hour}, mail)
//	…
//	err = mails.Schedule(ctx, jobs.Schedule{Name: "digest", Cron: "0 6 * * *"}, digest)
package jobs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Spec says when a job is due, and whether it is the only one of its kind. The
// zero Spec is a job that is due now.
type Spec struct {
	// ID makes a duplicate of each other job with the same ID that is published
	// while this one waits for its time, or within the time of Options.Dedup
	// after one of the two was published, or after it was due. Any text is an
	// ID. A job with an ID has no Key.
	ID string
	// Key makes a duplicate of each other job with the same Key that is
	// published while this one is in the queue: until its command has ended, or
	// it is canceled or a dead letter. Any text is a key. A job that waits for its time is
	// not in the queue yet: it is compared with others that wait, and when it
	// is due with the queue; then it is dropped if it is a duplicate.
	Key string
	// Lane is the lane of the job, of an inlet with Options.Lanes; empty means
	// the lane that Options.Lane returns for the command.
	Lane string
	// At is when the job is due, by the clock of the server; a time that has
	// passed means now. The job is not delivered before. It is delivered some
	// milliseconds later, or a quarter of a second if it was published shortly
	// before, if a process feeds a stage from its inlet then.
	At time.Time
	// In is At as a duration from now. Not both may be set.
	In time.Duration
}

// Check returns an error that names each fault of the Spec, or nil.
func (s Spec) Check() error {
	var errs []error
	if s.ID != "" && s.Key != "" {
		errs = append(errs, errors.New("Spec has an ID and a Key: use one of them"))
	}
	if !s.At.IsZero() && s.In != 0 {
		errs = append(errs, errors.New("Spec has At and In: use one of them"))
	}
	if s.In < 0 {
		errs = append(errs, fmt.Errorf("Spec.In is %v, and must not be negative", s.In))
	}
	return errors.Join(errs...)
}

// Missed is the fate of the times of a [Schedule] at which no process fed a
// stage from the inlet.
type Missed int

// The fates of missed times.
const (
	Merge   Missed = iota // one command for all of them; the default
	CatchUp               // a command for each of them, the oldest first
	Skip                  // no command, unless the last one is less than a minute ago
)

// String returns "merge", "catch-up" or "skip".
func (m Missed) String() string {
	switch m {
	case Merge:
		return "merge"
	case CatchUp:
		return "catch-up"
	case Skip:
		return "skip"
	default:
		return fmt.Sprintf("Missed(%d)", int(m))
	}
}

// onTime is how late a command of a schedule with [Skip] may be.
const onTime = time.Minute

// ErrCanceled is the cause of the end of the context of a handler whose job was
// canceled: see [context.Cause].
var ErrCanceled = errors.New("jobs: the job was canceled")

// Schedule declares a periodic command. It has a Cron or an Every.
type Schedule struct {
	// Name identifies the schedule in its inlet: 1 to 64 letters, digits, - and
	// _.
	Name string
	// Cron says when: the five fields minute, hour, day of the month, month and
	// day of the week, such as "30 6 * * MON-FRI", or "@hourly" and the like.
	// "CRON_TZ=Europe/Berlin " before it sets the time zone, which is UTC
	// otherwise. A time that is skipped as clocks are set forward is left out,
	// and one that comes twice as they are set back counts once or twice: see
	// https://pkg.go.dev/github.com/robfig/cron/v3, which reads it.
	Cron string
	// Every is the time between two commands, a second at least. The first is
	// due one Every after the schedule was declared first.
	Every time.Duration
	// Missed is the fate of the times that were missed.
	Missed Missed
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// leastEvery is the least time between two commands of a schedule.
const leastEvery = time.Second

// Check returns an error that names each fault of the Schedule, or nil.
func (s Schedule) Check() error {
	var errs []error
	if !validName.MatchString(s.Name) {
		errs = append(errs, fmt.Errorf("Schedule.Name %.128q must be of 1 to 64 letters, digits, - and _", s.Name))
	}
	switch {
	case (s.Cron == "") == (s.Every == 0):
		errs = append(errs, errors.New("Schedule needs a Cron or an Every, and not both"))
	case s.Cron == "" && s.Every < leastEvery:
		errs = append(errs, fmt.Errorf("Schedule.Every is %v, and must be at least %v", s.Every, leastEvery))
	case s.Cron != "":
		if at, err := parse(s.Cron); err != nil {
			errs = append(errs, fmt.Errorf("Schedule.Cron %q: %w", s.Cron, err))
		} else if at.Next(time.Now()).IsZero() {
			errs = append(errs, fmt.Errorf("Schedule.Cron %q: no time in the next five years is one of it", s.Cron))
		}
	}
	if s.Missed < Merge || s.Missed > Skip {
		errs = append(errs, fmt.Errorf("Schedule.Missed is %v, and must be Merge, CatchUp or Skip", s.Missed))
	}
	return errors.Join(errs...)
}

// Scheduled is a schedule that an inlet has.
type Scheduled struct {
	Schedule
	Next time.Time // when the next command is due
}

// Info says which job a handler handles.
type Info struct {
	ID       string    // of the Spec; empty if it had none
	Key      string    // of the Spec; empty if it had none
	Due      time.Time // when it was due; zero if it was due at once
	Schedule string    // the name of the schedule that it came from; empty if there is none
}

type infoKey struct{}

// Of returns which job a handler handles that has the context. It reports
// whether the command is a job. The commands that result from it are the same
// job.
func Of(ctx context.Context) (Info, bool) {
	i, ok := ctx.Value(infoKey{}).(Info)
	return i, ok
}

// With returns a context for the handler of a job. An inlet calls it; it is
// also for tests of handlers.
func With(ctx context.Context, i Info) context.Context { return context.WithValue(ctx, infoKey{}, i) }
