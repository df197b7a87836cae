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
	away    int32 // workers with commands in hand that wait for room elsewhere
}

// Away notes that a worker of the room's own has handled its commands and waits for room
// elsewhere, until its next turn. It is not at work: what comes meanwhile is for others.
func (r *Room) Away(s *Seat) {
	r.mu.Lock()
	if !s.away {
		s.away = true
		r.alone.away++
	}
	next := r.rouse()
	r.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// back notes that a worker has come for its turn, or leaves.
func (a *alone) back(s *Seat) {
	a.look(s, false)
	if s.away {
		s.away = false
		a.away--
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
	if r.c.busy+int(r.alone.looking-r.alone.away) <= 0 || r.alone.over || !r.little(r.due()) {
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
