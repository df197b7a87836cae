package jobs

import (
	"time"

	"github.com/robfig/cron/v3"
)

// parse reads the text of a Cron. Without a time zone it is in UTC: the local
// one may differ between the processes of an inlet.
func parse(text string) (cron.Schedule, error) {
	at, err := cron.ParseStandard(text)
	if err != nil {
		return nil, err
	}
	if s, ok := at.(*cron.SpecSchedule); ok && s.Location == time.Local {
		s.Location = time.UTC
	}
	return at, nil
}

// mostCaughtUp is how many missed times [Schedule.Due] returns at once.
const mostCaughtUp = 64

// First returns the first time of a schedule that is declared at a time.
func (s Schedule) First(declared time.Time) time.Time { return s.steps(declared)(declared) }

// Due returns the times for which commands must be published now, and the next
// time of the schedule. If many times have passed, the next one may have passed,
// too: then call Due again. Next is the time that Due has returned before, or
// that of First; declared is when the schedule was declared first. It is pure: package
// adapter/nats calls it, and so may a test of a schedule. A zero time means
// that the schedule has no more times.
func (s Schedule) Due(now, next, declared time.Time) (due []time.Time, then time.Time) {
	after := s.steps(declared)
	if next.IsZero() || next.After(now) {
		return nil, next
	}
	if s.Missed == CatchUp {
		for !next.IsZero() && !next.After(now) && len(due) < mostCaughtUp {
			due = append(due, next)
			next = after(next)
		}
		return due, next
	}
	last := s.last(now, next, after)
	if s.Missed == Merge || now.Sub(last) < onTime {
		due = []time.Time{last}
	}
	return due, after(last)
}

// steps returns a function that returns the first time of the schedule after a
// time; zero if there is none.
func (s Schedule) steps(declared time.Time) func(time.Time) time.Time {
	if s.Every > 0 {
		return func(t time.Time) time.Time { return declared.Add(t.Sub(declared).Truncate(s.Every) + s.Every) }
	}
	at, err := parse(s.Cron)
	if err != nil { // Check would have said so
		return func(time.Time) time.Time { return time.Time{} }
	}
	return at.Next
}

// last returns the last time of the schedule that is not after now, of the
// times from first on.
func (s Schedule) last(now, first time.Time, after func(time.Time) time.Time) time.Time {
	// the times just before now are looked at first: there may be millions
	for before := max(time.Minute, s.Every); now.Add(-before).After(first); before *= 60 {
		if t := after(now.Add(-before)); !t.IsZero() && !t.After(now) {
			first = t
			break
		}
	}
	for {
		t := after(first)
		if t.IsZero() || t.After(now) {
			return first
		}
		first = t
	}
}
