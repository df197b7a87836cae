package inbox

import (
	"time"

	"github.com/golda-dev/golda/internal/streak"
)

// Join adds a worker of the stage's own. With again it replaces a worker that
// crashed.
func (ws Workers) Join(m *Member, again bool) {
	m.belong(ws.in)
	var fx effects
	ws.in.mu.Lock()
	if !m.attendance.Joined() { // otherwise it was called
		ws.in.state.staff(1)
		ws.in.state.workers.Join(m, &m.attendance)
	}
	if again {
		ws.in.state.counts.Restarts++
	}
	ws.in.state.callWorker(&fx) // another may wait for an instance, if few are allowed
	ws.in.unlock(&fx)
}

// Leave removes a worker, for good or until it is started afresh. If its
// instance is still wanted it is taken back; otherwise it stays with the
// worker, which stops it and then calls [Instances.Return].
func (ws Workers) Leave(m *Member) {
	ws.in.transition(func(s *state, fx *effects) {
		s.leave(m)
		s.forgetLanes(m)
		s.changed(fx) // commands that it carried hold no slots here any more
	})
}

// Yield gives up a worker's place at the inbox after its last batch, when all
// results of the batch have been handed over.
func (in *Inbox) Yield(m *Member) {
	var fx effects
	in.mu.Lock()
	in.state.instances.Exit(&m.Holding)
	in.state.callWorker(&fx)
	in.state.checkQuiet(&fx)
	in.unlock(&fx)
}

// Succeed puts another member in the place of one that is not used any more: if
// that still held an instance, because its worker had something to hand over,
// its successor does.
func (ws Workers) Succeed(from, to *Member) {
	ws.in.mu.Lock()
	defer ws.in.mu.Unlock()
	to.Holding.Succeed(&from.Holding)
	to.custody.fault = from.custody.fault
	ws.in.state.queue.line.Succeed(from.Part, to.Part)
}

// ForgetShrink forgets what the workers of a stage that broke had still to do
// and had done wrong: requests to leave, and the streak of their crashes. It is
// called when none of them is left.
func (ws Workers) ForgetShrink() {
	ws.in.mu.Lock()
	defer ws.in.mu.Unlock()
	ws.in.state.workers.ForgetShrink()
	ws.in.state.streak.Forget()
}

// Shrink asks n workers to leave, first workers that were not started yet.
func (ws Workers) Shrink(n int) {
	ws.in.transition(func(s *state, fx *effects) {
		for _, m := range s.workers.Shrink(n - s.dropUnstarted(n)) {
			fx.wakeWorker(m)
		}
	})
}

// Unshrink takes back up to n requests to leave that no worker has followed
// yet, and returns how many.
func (ws Workers) Unshrink(n int) int {
	return ask(ws.in, func(s *state) int { return s.workers.Unshrink(n) })
}

// WakeAll wakes the idle workers that have an instance, though there may be
// nothing to do: they check their instances then. The others stay idle: a woken
// worker that cannot work would count as the worker that was called for the
// next command.
func (ws Workers) WakeAll() {
	var fx effects
	ws.in.mu.Lock()
	for _, m := range ws.in.state.workers.CallAll(func(m *Member) bool { return m.Owns() }) {
		fx.wakeWorker(m)
	}
	ws.in.unlock(&fx)
}

// AddUnstarted counts n workers as joined that are started when they are
// called, and not before. StartWorker is called for each, and then
// [Workers.TakeCalled] says whether the worker is still wanted.
func (ws Workers) AddUnstarted(n int) {
	ws.in.transition(func(s *state, fx *effects) {
		s.staff(n)
		s.workers.AddUnstarted(n)
		s.callWorker(fx)
	})
}

// TakeCalled makes a worker that is about to be started join in the place of
// the called worker. It reports whether one was called.
func (ws Workers) TakeCalled(m *Member) bool {
	m.belong(ws.in)
	ws.in.mu.Lock()
	defer ws.in.mu.Unlock()
	return ws.in.state.workers.Start(m, &m.attendance)
}

// DropUnstarted dismisses all workers that were not started, the called one
// too.
func (ws Workers) DropUnstarted() {
	ws.in.mu.Lock()
	defer ws.in.mu.Unlock()
	ws.in.state.staff(-ws.in.state.workers.DropAllUnstarted())
}

// dropUnstarted dismisses up to n workers that were not called, and returns how
// many.
func (s *state) dropUnstarted(n int) int {
	n = s.workers.DropUnstarted(n)
	s.staff(-n)
	return n
}

// Verdict is what a supervisor has to know of a crash.
type Verdict struct {
	Streak    int           // crashes one after another, without a completed command between them
	Unstarted int           // those at the end of the streak that were workers which could not start
	Since     time.Duration // the time since the first of these
	Pause     time.Duration // how long to wait before the worker is replaced
}

// Judge returns the facts for the supervisor of a worker that has crashed: the
// length of the streak, and the pause before a restart. It is called once for
// each crash that the worker's supervisor learns of. The workers of a shared
// pool do not pause: the pool leaves the inbox alone instead.
func (ws Workers) Judge(m *Member, workers int) Verdict {
	var fx effects
	ws.in.mu.Lock()
	k := &ws.in.state.streak
	v := Verdict{Streak: k.Length(), Unstarted: k.Unstarted(), Since: k.Unable(ws.in.state.now())}
	if m.visit == nil {
		v.Pause = ws.in.state.slowDown(m.custody.fault, workers, &fx)
	}
	ws.in.unlock(&fx)
	return v
}

// CrashStreak returns the present streak, or the last if there is none.
func (ws Workers) CrashStreak() CrashStreak {
	ws.in.mu.Lock()
	defer ws.in.mu.Unlock()
	if pl := ws.in.Pipeline(); pl != nil {
		return ws.in.state.streak.Facts(pl.Now(), ws.in.state.visits.resting)
	}
	return CrashStreak{}
}

// Streak returns how many crashes have followed one another without a completed
// command between them.
func (ws Workers) Streak() int {
	return ask(ws.in, func(s *state) int { return s.streak.Length() })
}

// forgetCrashes forgets the streak of crashes.
func (in *Inbox) forgetCrashes() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.state.streak.Forget()
}

// CrashIdle counts a worker that did not start: there was no batch.
func (ws Workers) CrashIdle(m *Member) {
	ws.in.mu.Lock()
	defer ws.in.mu.Unlock()
	ws.in.state.countCrash(m, streak.NotStarted, nil)
}
