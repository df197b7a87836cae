package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/worker"
)

// mostAbandoned is how many handlers that were given up may still run. Each holds a
// goroutine and what it works on; beyond so many the stage gives up.
const mostAbandoned = 1024

// errVanished is the failure of a worker that did not say why it ended.
var errVanished = errors.New("a worker ended without being told to")

// poolSupervisor is the actor of a pool: it supervises the pool's workers. A stage's own pool
// is kept even while others work for the stage, since the stage's shared behaviour, and
// the instances that nobody uses, are started and stopped here. All it does happens in
// its own goroutine, one message at a time.
type poolSupervisor struct {
	pool    *Pool
	ready   func(error)
	started bool // all workers were up once; ready has been told
	doomed  bool // could not start, or gave up: nobody is hired any more
	awaited int  // workers that have not told whether they could start
	hired   int  // workers there should be, as far as the keeper has seen to it

	workers []spawned       // a few, most often: a map of one is ten times as large
	ills    *crashHistories // nil: most keepers never see a crash
}

// crashHistories are what crashes have left behind.
type crashHistories struct {
	pauses map[*restart]*time.Timer // workers to come
	ails   map[*worker.Stage]*crashHistory
}

// spawned is a worker and its actor.
type spawned struct {
	pid *actor.PID
	w   *worker.Worker
}

// scale asks the keeper to see to the number of workers that is wanted.
type scale struct{}

// called asks the keeper for a worker that dozes.
type called struct{}

// restart asks the keeper to fill a slot again, after a pause.
type restart struct{ w *worker.Worker }

// IgnoreDeadLetterLogging marks messages that may come too late.
func (scale) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging marks messages that may come too late.
func (called) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging marks messages that may come too late.
func (*restart) IgnoreDeadLetterLogging() {}

func newPoolSupervisor(p *Pool, ready func(error)) *poolSupervisor {
	return &poolSupervisor{pool: p, ready: ready}
}

// Receive handles a message to the keeper.
func (ps *poolSupervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ps.start(ctx)
	case worker.Up:
		ps.workerStarted(ctx, m)
	case scale:
		ps.scale(ctx)
	case called:
		ps.startCalled(ctx)
	case *restart:
		delete(ps.ills.pauses, m)
		ps.startWorker(ctx, m.w)
	case *actor.Terminated:
		ps.gone(ctx, m.Who)
	case *actor.Stopping:
		ps.stop(ctx)
	case *actor.Stopped:
		ps.stopped()
	}
}

// HandleFailure is told of a worker that failed. The worker is stopped, never
// restarted in place; its end comes as a message and is dealt with there.
func (ps *poolSupervisor) HandleFailure(system *actor.System, _ actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, _, _ any) {
	actor.Stop(system, child)
}

// start makes the shared instance ready and hires the first workers. The keeper
// is known before it reads how many are wanted, so that a wish is either read
// here or comes as a message.
func (ps *poolSupervisor) start(ctx actor.Context) {
	ps.pool.supervisor.Store(ctx.Self())
	if err := ps.prepare(); err != nil {
		ps.fail(err)
		return
	}
	ps.pool.group.ForgetShrink()
	// Those who held commands when the stage broke are all called back, even if
	// fewer are wanted now; some leave when they have handed over.
	ps.hired = max(ps.pool.Want(), ps.pool.loaded())
	ps.awaited = ps.hired
	ps.addUnstarted()
	for range ps.awaited {
		ps.spawn(ctx, ps.pool.workerToStart(), false)
	}
	if ps.awaited == 0 {
		ps.reportStarted(ctx)
	}
}

// addUnstarted has the first workers doze until they are called, most often by a stage's first
// command: those that have nothing to make ready, so that nobody need hear that they cannot,
// and nothing to hand over. A worker and its actor take two kilobytes, and many stages never
// see a command. Several workers with instances of their own do not doze: they make those
// at once, side by side, and all must start.
func (ps *poolSupervisor) addUnstarted() {
	c := ps.pool.core
	if c == nil || !c.shares && ps.hired > 1 {
		return
	}
	n := ps.hired - ps.pool.loaded()
	ps.awaited -= n
	c.inbox.AddUnstarted(n)
}

// startCalled brings a worker that dozed.
func (ps *poolSupervisor) startCalled(ctx actor.Context) {
	if !ps.doomed && ps.pool.core.inbox.TakeCalled() {
		ps.spawn(ctx, ps.pool.workerToStart(), false)
	}
}

// prepare starts a stage's shared behaviour. Of a stage that others work for, or a worker
// who dozes, it starts one instance, for the idle instances: if that cannot be, the start is the time
// to know.
func (ps *poolSupervisor) prepare() error {
	c := ps.pool.core
	if c == nil {
		return nil
	}
	if err := c.raise(); err != nil {
		return err
	}
	if !c.shares && ps.pool.Want() <= 1 {
		return worker.Stock(c.staff)
	}
	return nil
}

// reportStarted tells that all workers are up.
func (ps *poolSupervisor) reportStarted(ctx actor.Context) {
	ps.started = true
	ps.reportReady(nil)
	ps.scale(ctx) // the wish may have changed meanwhile
}

// fail tells that the stage could not start.
func (ps *poolSupervisor) fail(err error) {
	if !ps.doomed && !ps.started {
		ps.doomed = true
		ps.reportReady(err)
	}
}

// reportReady tells, once, whether all could start.
func (ps *poolSupervisor) reportReady(err error) {
	ps.ready(err)
	ps.ready = nil
}

// workerStarted hears whether a worker could start.
func (ps *poolSupervisor) workerStarted(ctx actor.Context, m worker.Up) {
	if ps.started || ps.doomed {
		return
	}
	if m.Err != nil {
		ps.fail(m.Err)
		return
	}
	if ps.awaited--; ps.awaited == 0 {
		ps.reportStarted(ctx)
	}
}

// spawn fills a slot with a fresh actor.
func (ps *poolSupervisor) spawn(ctx actor.Context, w *worker.Worker, again bool) {
	pid, err := w.Spawn(ctx, fmt.Sprintf("worker-%d", ps.pool.hires.Add(1)), again)
	if err != nil { // the name is new, so this is no accident of ours
		ps.fail(err)
		actor.Fail(ctx, err)
		return
	}
	ps.workers = append(ps.workers, spawned{pid, w})
}

// scale hires or dismisses workers until there are as many as are wanted.
// Workers who were asked to leave and have not yet are kept first.
func (ps *poolSupervisor) scale(ctx actor.Context) {
	if ps.doomed || !ps.started {
		return
	}
	more := ps.pool.Want() - ps.hired
	ps.hired += more
	if more < 0 {
		ps.pool.group.Shrink(-more)
		return
	}
	for range more - ps.pool.group.Unshrink(more) {
		ps.spawn(ctx, ps.pool.workerToStart(), false)
	}
}

// gone hears that a worker's actor has ended.
func (ps *poolSupervisor) gone(ctx actor.Context, who *actor.PID) {
	i := slices.IndexFunc(ps.workers, func(h spawned) bool { return h.pid.Id == who.Id })
	if i < 0 {
		return
	}
	w := ps.workers[i].w
	ps.workers = slices.Delete(ps.workers, i, i+1)
	if w.Lost() {
		w = ps.pool.renew(w)
	}
	if ps.doomed || w.Left() {
		w.Unclaim()
		return
	}
	ps.replace(ctx, w)
}

// replace sees to it that a worker that crashed is followed by a fresh one: at
// once, after a pause, or never, if there were too many in a row.
func (ps *poolSupervisor) replace(ctx actor.Context, w *worker.Worker) {
	err := w.Failure()
	if err == nil { // stopped by somebody who should not have: no worker ends so
		err = fmt.Errorf("stage %q: %w", ps.pool.name(), errVanished)
		ps.pool.group.CrashIdle()
		ps.pool.env.Log.Warn("worker vanished", "stage", ps.pool.name())
	}
	staff := w.Stage()
	if staff == nil { // a shared one that was nowhere yet
		ps.startWorker(ctx, w)
		return
	}
	streak := staff.Inbox.Streak()
	beyond := streak - ps.hired
	ail := ps.crashHistory(staff)
	ail.note(err)
	switch {
	case beyond > int(staff.Endures) || staff.Inbox.AbandonedRunning() > mostAbandoned:
		w.Unclaim()
		ps.giveUp(ctx, ail.broken(staff.Inbox, streak))
	case beyond > 0 && ps.pool.shared == nil:
		pause := staff.Pause(beyond)
		ail.pause(pause)
		ps.later(ctx, w, pause)
	default: // other stages need a shared worker: it is the stage that rests
		ps.startWorker(ctx, w)
	}
}

// giveUp tells that the pool cannot go on, or that it could not even start.
func (ps *poolSupervisor) giveUp(ctx actor.Context, why *BrokenError) {
	if !ps.started {
		ps.fail(why)
		return
	}
	ps.doomed = true
	actor.Fail(ctx, why)
}

// later fills a slot after a pause.
func (ps *poolSupervisor) later(ctx actor.Context, w *worker.Worker, pause time.Duration) {
	system, self := ctx.ActorSystem(), ctx.Self()
	m := &restart{w}
	ps.crashHistories().pauses[m] = time.AfterFunc(pause, func() { actor.Tell(system, self, m) })
}

// crashHistories is what crashes have left behind, to be changed.
func (ps *poolSupervisor) crashHistories() *crashHistories {
	if ps.ills == nil {
		ps.ills = &crashHistories{map[*restart]*time.Timer{}, map[*worker.Stage]*crashHistory{}}
	}
	return ps.ills
}

// startWorker fills the slot of a worker that crashed, unless one less is wanted now.
func (ps *poolSupervisor) startWorker(ctx actor.Context, w *worker.Worker) {
	if ps.doomed || !w.Loaded() && ps.pool.group.RetireOne() {
		w.Unclaim()
		return
	}
	ps.spawn(ctx, w, true)
}

// stop hears that the stage is to end. Its workers are told next, and awaited.
func (ps *poolSupervisor) stop(ctx actor.Context) {
	ps.doomed = true
	for _, h := range ps.workers {
		actor.Adopt(ctx, h.pid)
	}
	if ps.ills != nil {
		for m, pause := range ps.ills.pauses {
			pause.Stop()
			m.w.Unclaim()
		}
		clear(ps.ills.pauses)
	}
	if c := ps.pool.core; c != nil {
		c.inbox.DropUnstarted()
	}
}

// stopped is called when all workers have ended.
func (ps *poolSupervisor) stopped() {
	c := ps.pool.core
	if c == nil {
		return
	}
	c.lower()
}
