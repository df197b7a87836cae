package engine

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/inbox"
)

// keptCrashes is how many of the last crashes a BrokenError has.
const keptCrashes = 5

// crashHistory is a poolSupervisor's memory of a stage whose workers crash one
// after another.
type crashHistory struct {
	streak uint64 // the number of the streak of crashes
	last   []error
	pauses int
	paused time.Duration
}

func (h *crashHistory) add(err error) {
	h.last = append(h.last, err)
	h.last = h.last[max(0, len(h.last)-keptCrashes):]
}

func (h *crashHistory) addPause(d time.Duration) {
	h.pauses++
	h.paused += d
}

// broken returns the error of a stage that gives up. The pauses of the stage's
// own workers are counted here, the pauses of workers of shared pools in the
// inbox.
func (h *crashHistory) broken(in *inbox.Inbox, v inbox.Verdict) *BrokenError {
	streak := in.Workers().CrashStreak()
	e := &BrokenError{Stage: in.Name(), Crashes: v.Streak, Unstarted: v.Unstarted, Last: h.last}
	if !slices.Contains(h.last, streak.First) {
		e.First = streak.First
	}
	e.Pauses, e.Paused = h.pauses+streak.Rests, h.paused+streak.Rested
	return e
}
