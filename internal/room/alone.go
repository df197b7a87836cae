package room

import "time"

// A queue that one worker does in no time is left to it while it is at work: to bring another
// costs as much as the work, and they only get in each other's way. That one sees what the room
// knows of its handlers, which may be wrong of the next command. So a queue is not left to
// a worker for long unless that gets on.
const (
	// soon is how long the work may take that is left to one worker: no longer than it takes
	// another to come, on a machine that is busy.
	soon = quantum / 5
	// stillness is how long a worker to whom a queue is left may not be heard of.
	stillness = time.Millisecond
)

// alone watches over queues that are left to one worker.
type alone struct {
	timer   *time.Timer
	done    uint64 // how many commands had ended when the watch last looked
	watched bool
	over    bool // the watch has seen that the queue is not to be left to one

	looking int32 // workers who found nothing, and are about to look once more
	away    int32 // workers that are blocked
}

// Away notes that a worker of the room's own has handled its batch and is blocked: it waits until a stage ahead has
// room, and is not at work until its next turn. Now is the host's clock. Away books how long the batch took, since
// the worker may wait for longer than that.
func (r *Room) Away(s *Seat, t *Tally, now int64) {
	r.mu.Lock()
	r.clocked(s, t)
	r.block(s, now)
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// look notes whether a worker is about to look once more. It is as good as at work.
func (a *alone) look(s *Seat, looks bool) {
	if s.looks == looks {
		return
	}
	s.looks = looks
	if looks {
		a.looking++
	} else {
		a.looking--
	}
}

// little reports whether n commands are soon done, as far as is known.
func (r *Room) little(n int) bool {
	return r.service > 0 && r.crew == nil && r.queue.woken == nil && time.Duration(n)*r.service <= soon
}

// left reports whether the queue is left to who is at work.
func (r *Room) left() bool {
	if r.c.busy+int(r.alone.looking) <= 0 || r.alone.over || !r.little(r.due()) {
		return false
	}
	if !r.alone.watched {
		r.watchOver()
	}
	return true
}

func (r *Room) watchOver() {
	r.alone.watched, r.alone.done = true, r.completed()
	r.set(&r.alone.timer, stillness, (*Room).lookAfter)
}

// lookAfter calls another worker if the one who was left alone has not been heard of.
func (r *Room) lookAfter() {
	r.mu.Lock()
	r.alone.watched = false
	r.alone.over = r.completed() == r.alone.done
	next := r.rouse()
	r.alone.over = false
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// completed is how many commands have been handled.
func (r *Room) completed() uint64 { return r.c.ok + r.c.forwarded + r.c.errors }
