package pipeline

import (
	"errors"
	"fmt"

	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// stageError is the error of a stage, or of a pool, that gave up. Its text does
// not have the names of the actors.
type stageError struct{ *supervisor.EscalationError }

// Error returns how often the stage was restarted, and why it failed last.
func (e *stageError) Error() string {
	if e.Restarts > 0 {
		return fmt.Sprintf("gave up after %d restarts within %v: %s", e.Restarts, e.Within, plain.Text(e.Reason))
	}
	if broken, ok := errors.AsType[*stage.BrokenError](e.Reason); ok {
		return broken.Error()
	}
	return e.EscalationError.Error()
}

// Unwrap returns the report of the supervisor.
func (e *stageError) Unwrap() error { return e.EscalationError }

// gaveUpError is why a drain ended, beside the error of the pipeline that gave
// up.
type gaveUpError struct{ error }

func (gaveUpError) Error() string   { return "the pipeline gave up" }
func (e gaveUpError) Unwrap() error { return e.error }

// ended joins why a pipeline gave up, nil if it did not, and the error of its
// stop, whose text does not repeat the reason.
func ended(why, stopped error) error {
	if report, ok := stopped.(*StopError); ok && why != nil && report.Drain != nil && errors.Is(report.Drain.Cause, why) { //nolint:errorlint // Stop returns no other error
		drain := *report.Drain
		drain.Cause = gaveUpError{why}
		brief := *report
		brief.Drain = &drain
		stopped = &brief
	}
	return errors.Join(why, stopped)
}
