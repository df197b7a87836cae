package engine

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/worker"
)

// keptCrashes is how many of the last crashes a BrokenError has.
const keptCrashes = 5

// crashHistory is what a poolSupervisor remembers of a stage whose workers crash one after another.
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

// broken returns the error of a stage that gives up. The pauses of the stage's own workers are counted here, those of the
// workers of shared pools in the inbox.
func (h *crashHistory) broken(in *inbox.Inbox, crashes int) *BrokenError {
	streak := in.CrashStreak()
	e := &BrokenError{Stage: in.Name(), Crashes: crashes, Last: h.last}
	if !slices.Contains(h.last, streak.First) {
		e.First = streak.First
	}
	e.Pauses, e.Paused = h.pauses+streak.Rests, h.paused+streak.Rested
	return e
}

// crashRecords are what crashes leave behind in a poolSupervisor.
type crashRecords struct {
	pauses    map[*restart]*time.Timer // workers that are started after a pause
	histories map[*worker.Stage]*crashHistory
}

// records returns what crashes have left behind, for a change.
func (ps *poolSupervisor) records() *crashRecords {
	if ps.crashes == nil {
		ps.crashes = &crashRecords{map[*restart]*time.Timer{}, map[*worker.Stage]*crashHistory{}}
	}
	return ps.crashes
}

// crashHistory returns the history of a stage. It starts a new one if the stage has completed a command since its last
// crash.
func (ps *poolSupervisor) crashHistory(s *worker.Stage) *crashHistory {
	streak := s.Inbox.CrashStreak().Number
	histories := ps.records().histories
	if h := histories[s]; h != nil && h.streak == streak {
		return h
	}
	for o := range histories { // forget stages that have recovered or are gone: a few at most
		if o.Inbox.Streak() == 0 {
			delete(histories, o)
		}
	}
	h := &crashHistory{streak: streak}
	histories[s] = h
	return h
}
