package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/worker"
)

// BrokenError tells that a stage gave up: its workers crashed one after
// another, and not one command was completed in between.
type BrokenError struct {
	Stage   string
	Crashes int     // in a row; all those of one command count once
	First   error   // how it began; nil if that is in Last
	Last    []error // the last few, the newest at the end

	// What was tried: each crash but the last was answered by a fresh worker, some of
	// them after a pause.
	Pauses int
	Paused time.Duration // all pauses together
}

// Error tells how often, and how it went last; [BrokenError.Story] tells more.
func (e *BrokenError) Error() string {
	last := "no crash recorded"
	if len(e.Last) > 0 {
		last = plain.Text(e.Last[len(e.Last)-1])
	}
	return fmt.Sprintf("stage %q: gave up after %d crashes in a row without a completed command; last: %s",
		e.Stage, e.Crashes, last)
}

// Unwrap returns the crashes that are known.
func (e *BrokenError) Unwrap() []error {
	if e.First == nil {
		return e.Last
	}
	return append([]error{e.First}, e.Last...)
}

// Story tells what was tried, how it began and how it ended, and where each crash
// happened. It is part of the story of an escalation.
func (e *BrokenError) Story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "stage %q gave up after %d crashes in a row without a completed command\n", e.Stage, e.Crashes)
	fmt.Fprintf(&b, "tried: to start a fresh worker after each, %d times after a pause, %v of pauses in all\n",
		e.Pauses, e.Paused.Round(time.Millisecond))
	if e.First != nil {
		b.WriteString("the first:\n")
		tell(&b, e.First, "")
	}
	fmt.Fprintf(&b, "the last %d:\n", len(e.Last))
	place := ""
	for _, err := range e.Last {
		place = tell(&b, err, place)
	}
	return b.String()
}

// tell writes a crash down, with its stack unless that was written just before, and
// returns its place.
func tell(b *strings.Builder, err error, before string) (place string) {
	fmt.Fprintf(b, "- %s\n", plain.Text(err))
	crash, ok := errors.AsType[*worker.CrashError](err)
	if !ok {
		return ""
	}
	if place = crash.Fingerprint(); place != "" && place == before {
		b.WriteString("  at the same place\n")
		return place
	}
	for line := range strings.Lines(string(crash.Stack)) {
		b.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return place
}

// mostTold is how many of the last crashes a BrokenError tells of.
const mostTold = 5

// crashHistory is what a keeper remembers of a stage whose workers crash one after another.
type crashHistory struct {
	spell  uint64 // which streak of crashes it is
	last   []error
	pauses int
	paused time.Duration
}

func (a *crashHistory) note(err error) {
	a.last = append(a.last, err)
	a.last = a.last[max(0, len(a.last)-mostTold):]
}

func (a *crashHistory) pause(d time.Duration) {
	a.pauses++
	a.paused += d
}

// broken is what there is to tell of a stage that gives up. It has paused for its own
// workers here, for those of shared pools in its room.
func (a *crashHistory) broken(in *inbox.Inbox, streak int) *BrokenError {
	spell := in.CrashStreak()
	e := &BrokenError{Stage: in.Name(), Crashes: streak, Last: a.last}
	if !slices.Contains(a.last, spell.First) {
		e.First = spell.First
	}
	e.Pauses, e.Paused = a.pauses+spell.Rests, a.paused+spell.Rested
	return e
}

// crashHistory is what is remembered of a stage; of one that has completed a command since,
// nothing.
func (ps *poolSupervisor) crashHistory(s *worker.Stage) *crashHistory {
	spell := s.Inbox.CrashStreak().Number
	ails := ps.crashHistories().ails
	if a := ails[s]; a != nil && a.spell == spell {
		return a
	}
	for o := range ails { // those that are well, or gone: of a few stages at most
		if o.Inbox.Streak() == 0 {
			delete(ails, o)
		}
	}
	a := &crashHistory{spell: spell}
	ails[s] = a
	return a
}
