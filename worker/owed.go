package worker

import (
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/coro"
)

// Owes reports whether suspended handlers of the stage hold commands that they
// emitted to another one, or results of the stage, if it is ordered, wait until
// they may leave for it. Commands of workers are not counted; see the inbox's
// Mark.
func (s *Stage) Owes(to *behaviour.Inlet) bool {
	if s.Inbox.HasResultsFor(to) {
		return true
	}
	if s.Runs == nil {
		return false
	}
	owes := false
	s.Runs.Each(func(t *coro.Task) { owes = owes || t.Tag.(*Run).owes(to) })
	return owes
}

// owes reports whether the run holds something for an inlet. While its handler
// emits it may.
func (run *Run) owes(to *behaviour.Inlet) bool {
	if run.custody.gone() {
		return false
	}
	if !run.emitting.TryLock() {
		return true
	}
	defer run.emitting.Unlock()
	return slices.ContainsFunc(run.emits, func(m emission) bool { return m.to.to.Inlet() == to })
}
