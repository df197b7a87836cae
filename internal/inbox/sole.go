package inbox

import "time"

// A queue that one worker does in no time is left to it while it is at work: to bring another
// costs as much as the work, and they only get in each other's way. That one sees what the inbox
// knows of its handlers, which may be wrong of the next command. So a queue is not left to
// a worker for long unless that gets on.
const (
	// soon is how long the work may take that is left to one worker: no longer than it takes
	// another to come, on a machine that is busy.
	soon = quantum / 5
	// stillness is how long a worker to whom a queue is left may not be heard of.
	stillness = time.Millisecond
)

// soleWorker watches over queues that are left to one worker.
type soleWorker struct {
	timer   *time.Timer
	done    uint64 // how many commands had ended when the watch last looked
	watched bool
	over    bool // the watch has seen that the queue is not to be left to one

	looking int32 // workers who found nothing, and are about to look once more
	away    int32 // workers that are blocked
}

// Blocked notes that a worker of the inbox's own has handled its batch and is blocked: it waits until a stage ahead has
// room, and is not at work until its next turn. Now is the pipeline's clock. Away books how long the batch took, since
// the worker may wait for longer than that.
func (in *Inbox) Blocked(m *Member, t *Tally, now int64) {
	in.mu.Lock()
	in.bookTime(m, t)
	in.markBlocked(m, now)
	next := in.wakeOne()
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// setLooking notes whether a worker is about to look once more. It is as good as at work.
func (sw *soleWorker) setLooking(m *Member, looks bool) {
	if m.looking == looks {
		return
	}
	m.looking = looks
	if looks {
		sw.looking++
	} else {
		sw.looking--
	}
}

// isLittle reports whether n commands are soon done, as far as is known.
func (in *Inbox) isLittle(n int) bool {
	return in.service > 0 && in.pool == nil && in.queue.woken == nil && time.Duration(n)*in.service <= soon
}

// leftToOne reports whether the queue is left to who is at work.
func (in *Inbox) leftToOne() bool {
	if in.counts.busy+int(in.sole.looking) <= 0 || in.sole.over || !in.isLittle(in.available()) {
		return false
	}
	if !in.sole.watched {
		in.watchSole()
	}
	return true
}

func (in *Inbox) watchSole() {
	in.sole.watched, in.sole.done = true, in.completed()
	in.set(&in.sole.timer, stillness, (*Inbox).checkSole)
}

// checkSole calls another worker if the one who was left alone has not been heard of.
func (in *Inbox) checkSole() {
	in.mu.Lock()
	in.sole.watched = false
	in.sole.over = in.completed() == in.sole.done
	next := in.wakeOne()
	in.sole.over = false
	in.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// completed is how many commands have been handled.
func (in *Inbox) completed() uint64 { return in.counts.ok + in.counts.forwarded + in.counts.errors }
