package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/plain"
)

// BrokenError is why a stage gave up: its workers could not start, or crashed
// more often than its limit allows, and not one command was completed in
// between. Package stage documents it.
type BrokenError struct {
	Stage     string
	Crashes   int     // in a row; all crashes of one command count once
	Unstarted int     // those at the end that were workers which could not start
	First     error   // the first crash, nil if it is one of Last
	Last      []error // the last crashes, the newest at the end

	// Each crash but the last was followed by a fresh worker, some of them
	// after a pause.
	Pauses int
	Paused time.Duration // the sum of the pauses
}

// Error returns the count and the last crash. [BrokenError.Story] returns more.
func (e *BrokenError) Error() string {
	last := "no crash recorded"
	if len(e.Last) > 0 {
		last = strings.TrimPrefix(plain.Text(e.Last[len(e.Last)-1]), fmt.Sprintf("stage %q: ", e.Stage))
	}
	return fmt.Sprintf("stage %q: gave up after %s; last: %s", e.Stage, e.count(), last)
}

// count describes the streak.
func (e *BrokenError) count() string {
	count := fmt.Sprintf("%d crashes in a row without a completed command", e.Crashes)
	if e.Unstarted > 0 {
		count += fmt.Sprintf(", the last %d of workers that could not start", e.Unstarted)
	}
	return count
}

// Unwrap returns the crashes that are known.
func (e *BrokenError) Unwrap() []error {
	if e.First == nil {
		return e.Last
	}
	return append([]error{e.First}, e.Last...)
}

// Story describes the restarts that were tried, the first crash and the last
// ones, and where each happened. It is part of the story of an escalation.
func (e *BrokenError) Story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "stage %q gave up after %s\n", e.Stage, e.count())
	fmt.Fprintf(&b, "tried: to start a fresh worker after each, %d times after a pause, %v of pauses in all\n",
		e.Pauses, e.Paused.Round(time.Millisecond))
	if e.First != nil {
		b.WriteString("the first:\n")
		writeCrash(&b, e.First, "")
	}
	fmt.Fprintf(&b, "the last %d:\n", len(e.Last))
	place := ""
	for _, err := range e.Last {
		place = writeCrash(&b, err, place)
	}
	return b.String()
}

// writeCrash writes a crash and its stack, and returns its fingerprint. It
// leaves the stack out if the fingerprint equals the previous crash's: that
// stack is written already.
func writeCrash(b *strings.Builder, err error, before string) (fingerprint string) {
	fmt.Fprintf(b, "- %s\n", plain.Text(err))
	how, ok := errors.AsType[*crash.Error](err)
	if !ok {
		return ""
	}
	if fingerprint = how.Fingerprint(); fingerprint != "" && fingerprint == before {
		b.WriteString("  at the same place\n")
		return fingerprint
	}
	for line := range strings.Lines(string(how.Stack)) {
		b.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return fingerprint
}
