package pipeline

import (
	"errors"
	"os"
)

// Ending says how a pipeline ended.
type Ending uint8

// The endings.
const (
	// NotEnded is that of a pipeline that was not stopped, or is still stopping: [Pipeline.Done] is open.
	NotEnded Ending = iota
	// Finished is that of a pipeline that was stopped by the program: [Pipeline.Stop] was called, or the context of Run ended.
	Finished
	// Interrupted is that of a pipeline that a signal stopped: see [Pipeline.RunUntilSignal].
	Interrupted
	// GaveUp is that of a pipeline that could not start, or could not go on: [Pipeline.Err] says why.
	GaveUp
)

// String returns the ending in words.
func (e Ending) String() string {
	switch e {
	case NotEnded:
		return "not ended"
	case Finished:
		return "finished"
	case Interrupted:
		return "interrupted"
	case GaveUp:
		return "gave up"
	default:
		return "unknown"
	}
}

// Ending returns how the pipeline ended: it says what ended it, and the error of Run or Stop whether all was done. A signal that comes
// when the program has begun to stop the pipeline makes it Interrupted only if it ends the drain.
func (p *Pipeline) Ending() Ending {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, bySignal := errors.AsType[*SignalError](p.failure)
	switch {
	case p.state != stopped:
		return NotEnded
	case p.failure != nil && !bySignal:
		return GaveUp
	case p.signal != nil:
		return Interrupted
	default:
		return Finished
	}
}

// interrupt notes that a signal stops the pipeline, unless it stops already and the signal does not end the drain.
func (p *Pipeline) interrupt(s os.Signal, hard bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state < stopping || hard && p.state == stopping {
		p.signal = s
	}
}
