package inbox

import "slices"

// workerSet is the set of workers of one inbox, or of a shared pool. The lock
// of the inbox or pool guards it.
//
// Each worker is working, idle, or on its way (waking); excess workers must
// leave at their next turn.
type workerSet struct {
	live   int // workers that have joined
	most   int // the highest value of live so far
	excess int // workers that should leave at their next turn
	waking int // workers that are on their way: woken, or about to look once more
	idle   []*Member
}

// join adds a worker.
func (ws *workerSet) join(m *Member) {
	ws.live++
	ws.most = max(ws.most, ws.live)
	m.attendance.joined = true
	m.ready.Store(true)
}

// depart removes a worker. It returns false if it had not joined.
func (ws *workerSet) depart(m *Member) bool {
	if !m.attendance.joined {
		return false
	}
	m.attendance.joined = false
	ws.live--
	ws.arrive(m)
	return true
}

// pickIdle picks the fit worker that has been idle for the shortest time, nil
// if there is none. The caller wakes it.
func (ws *workerSet) pickIdle(fit func(*Member) bool) *Member {
	for i, m := range slices.Backward(ws.idle) {
		if fit(m) {
			ws.idle = slices.Delete(ws.idle, i, i+1)
			ws.markWoken(m)
			return m
		}
	}
	return nil
}

// markWoken marks a worker that was idle as on its way.
func (ws *workerSet) markWoken(m *Member) {
	m.attendance.idle = false
	m.ready.Store(true)
	ws.expect(m)
}

// expect counts a worker as on its way.
func (ws *workerSet) expect(m *Member) {
	m.attendance.waking = true
	ws.waking++
}

// arrive notes that a worker takes its turn: it was woken, or it was idle and
// takes a turn for another reason.
func (ws *workerSet) arrive(m *Member) {
	if m.attendance.waking {
		m.attendance.waking = false
		ws.waking--
	}
	if m.attendance.idle {
		m.attendance.idle = false
		ws.idle = slices.DeleteFunc(ws.idle, func(o *Member) bool { return o == m })
	}
}

// park makes a worker idle until it is woken.
func (ws *workerSet) park(m *Member) {
	m.ready.Store(false)
	m.attendance.idle = true
	ws.idle = append(ws.idle, m)
}

// retires reports whether a worker that takes its turn must leave: any worker
// is, while there are excess workers.
func (ws *workerSet) retires() bool { return ws.unshrink(1) == 1 }

// shrink asks n workers to leave: the first workers to take a turn will. It
// returns as many idle workers, the longest idle first. The caller wakes them.
func (ws *workerSet) shrink(n int) []*Member {
	ws.excess += n
	return ws.wakeIdle(n)
}

// wakeIdle marks up to n idle workers as on their way, and returns them. The
// caller wakes them.
func (ws *workerSet) wakeIdle(n int) []*Member {
	n = min(n, len(ws.idle))
	woken := slices.Clone(ws.idle[:n])
	ws.idle = slices.Delete(ws.idle, 0, n)
	for _, m := range woken {
		ws.markWoken(m)
	}
	return woken
}

// unshrink takes back up to n requests to leave that no worker has followed
// yet, and returns how many.
func (ws *workerSet) unshrink(n int) int {
	n = min(n, ws.excess)
	ws.excess -= n
	return n
}
