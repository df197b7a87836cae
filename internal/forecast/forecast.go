// Package forecast predicts how long a command would wait in a queue.
package forecast

import "time"

// Forecast predicts how long a command would wait that is queued now, from how
// fast commands have left the queue since a mark. It is asked when a command is
// refused, so accepted commands pay nothing for it.
//
// A mark is of use while fewer commands have left the queue than waited then:
// until then the queue was never empty, so it was never the lack of commands
// that slowed the workers down.
//
// The zero Forecast knows nothing. It is not safe for concurrent use; an inbox
// guards it with its lock.
type Forecast struct {
	mark   mark
	each   float64 // nanoseconds between two commands that left the queue; 0: it is not known
	learnt int64   // when each was learnt
}

// mark is the state of the queue when the mark was set.
type mark struct {
	at     int64 // 0: it was never set
	left   int64 // commands that had left the queue
	queued int   // commands that were in it
}

const (
	// enoughLeft is how many commands must have left since a mark, or half of
	// the queue: fewer may be one batch.
	enoughLeft = 8
	// forgetAfter is how long a rate is remembered while none can be measured.
	forgetAfter = int64(time.Minute)
)

// Wait returns for how long a command behind all that are queued would wait, 0
// if that is not known. Left is how many commands have left the queue so far.
// Guess is the time between two of them by the time of handlers, for when there
// is nothing better; it may be 0.
func (f *Forecast) Wait(now, left int64, queued int, guess time.Duration) time.Duration {
	n, busy := left-f.mark.left, now-f.mark.at
	full := f.mark.at > 0 && n >= 0 && n < int64(f.mark.queued) // the queue was never empty since
	half := int64(max(f.mark.queued/2, 1))
	if full && n >= min(half, enoughLeft) && busy > 0 {
		f.each, f.learnt = float64(busy)/float64(n), now
	}
	if !full || n >= half {
		f.mark = mark{now, left, queued}
	}
	each := f.each
	if each == 0 || now-f.learnt > forgetAfter {
		each = float64(guess)
	}
	return time.Duration(float64(queued) * each)
}
