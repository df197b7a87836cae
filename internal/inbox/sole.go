package inbox

import "time"

// A queue that one worker finishes in no time is left to that worker while it is at work: to wake another costs as much as
// the work, and they only get in each other's way. The inbox knows how long the handlers took so far, which may be wrong of
// the next command. So a queue is left to one worker for long only if that worker gets on.
const (
	// soon is how long the work may take that is left to one worker: no longer than it takes another to come, on a machine
	// that is busy.
	soon = quantum / 5
	// stillness is for how long a worker to which a queue is left may complete nothing.
	stillness = time.Millisecond
)

// soleWorker watches over a queue that is left to one worker.
type soleWorker struct {
	done    uint64 // how many commands had been completed when the watch last looked
	watched bool
	over    bool // the watch has seen that the queue is not to be left to one worker
}

// Blocked notes that a worker of the stage's own has handled its batch and is blocked: it waits until a stage ahead has free
// slots, and is not at work until its next turn. Now is the pipeline's clock. Blocked books how long the batch took, since
// the worker may wait for longer than that.
func (in *Inbox) Blocked(m *Member, t *Tally, now int64) {
	var fx effects
	in.mu.Lock()
	in.bookTime(m, t)
	in.markBlocked(m, now)
	in.callWorker(&fx)
	in.unlock(&fx)
}

// isLittle reports whether n commands are soon done, as far as is known.
func (s *state) isLittle(n int) bool {
	return s.service > 0 && s.pool == nil && s.queue.woken == nil && time.Duration(n)*s.service <= soon
}

// leftToOne reports whether the queue is left to the worker that is at work.
func (s *state) leftToOne() bool {
	if s.counts.busy <= 0 || s.sole.over || !s.isLittle(s.available()) {
		return false
	}
	if !s.sole.watched {
		s.sole.watched, s.sole.done = true, s.counts.completed()
		s.setAlarm(soleAlarm, stillness)
	}
	return true
}

// checkSole calls another worker if the one to which the queue was left has completed nothing.
func (s *state) checkSole(fx *effects) {
	s.sole.watched = false
	s.sole.over = s.counts.completed() == s.sole.done
	s.callWorker(fx)
	s.sole.over = false
}

// completed is how many commands have been handled.
func (c *counts) completed() uint64 { return c.ok + c.forwarded + c.errors }
