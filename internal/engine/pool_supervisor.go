package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/worker"
)

// errVanished is the failure of a worker that reported none.
var errVanished = errors.New("a worker ended without being asked to")

// poolSupervisor is the actor of a pool: it supervises the pool's workers. A
// stage's own pool has one even while a shared pool works for the stage,
// because it also starts and stops the stage's shared behaviour and its idle
// instances. All that it does happens in its own goroutine, one message at a
// time.
type poolSupervisor struct {
	pool    *Pool
	ready   func(error) // nil once it was called: all workers were up once, or the pool could not start
	doomed  bool        // could not start, gave up, retires or stops: no worker is started any more
	awaited int         // workers that have not reported whether they could start
	target  int         // how many workers there should be, as of the last scale

	workers []spawned     // few, most often: a map with one entry is ten times as large
	crashes *crashRecords // nil until a worker crashes, which in most pools never happens
}

// spawned is a worker and its actor.
type spawned struct {
	pid *actor.PID
	w   *worker.Worker
}

// restart asks for a fresh actor for a worker that crashed, after a pause.
type restart struct{ w *worker.Worker }

// IgnoreDeadLetterLogging marks messages that may come too late.
func (*restart) IgnoreDeadLetterLogging() {}

func newPoolSupervisor(p *Pool, ready func(error)) *poolSupervisor {
	return &poolSupervisor{pool: p, ready: ready}
}

// Receive handles a message to the actor.
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
		if _, ok := ps.crashes.pauses[m]; ok { // not if it came too late
			delete(ps.crashes.pauses, m)
			ps.restart(ctx, m.w)
		}
	case retire:
		ps.retire(ctx)
	case *actor.Terminated:
		ps.workerEnded(ctx, m.Who)
	case *actor.Stopping:
		ps.dismiss()
	case *actor.Stopped:
		ps.stopped()
	}
}

// HandleFailure is called when a worker failed. It stops the worker and never
// restarts it in place: the end of the worker comes as a message, and
// workerEnded deals with it.
func (ps *poolSupervisor) HandleFailure(system *actor.System, _ actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, _, _ any) {
	actor.Stop(system, child)
}

// start starts the shared instance and the first workers. It publishes the
// supervisor's PID before it reads how many workers are wanted, so that a
// change of that number is either read here or comes as a message.
func (ps *poolSupervisor) start(ctx actor.Context) {
	ps.pool.supervisor.Store(ctx.Self())
	if ps.pool.retiring.Load() {
		ps.retire(ctx)
		return
	}
	if err := ps.startInstances(); err != nil {
		ps.giveUp(ctx, err)
		return
	}
	ps.pool.group.ForgetShrink()
	// All workers that held commands when the stage broke are started again,
	// even if fewer are wanted now. The surplus workers leave when they have
	// handed the commands over.
	ps.target = max(ps.pool.Want(), ps.pool.loaded())
	ps.awaited = ps.target
	ps.addUnstarted()
	for range ps.awaited {
		ps.spawn(ctx, ps.pool.workerToStart(), false)
	}
	if ps.awaited == 0 {
		ps.allStarted(ctx)
	}
}

// addUnstarted leaves the first workers to be started when the inbox calls
// them, most often for a stage's first command. It does so for workers that
// have nothing to start, so that nothing can fail, and nothing to hand over. A
// worker and its actor take two kilobytes, and many stages never get a command.
// Several workers with instances of their own are not left: they make these at
// once, in parallel, and all must start.
func (ps *poolSupervisor) addUnstarted() {
	c := ps.pool.core
	if c == nil || !c.shares && ps.target > 1 {
		return
	}
	n := ps.target - ps.pool.loaded()
	ps.awaited -= n
	c.inbox.Workers().AddUnstarted(n)
}

// startCalled starts a worker that the inbox called.
func (ps *poolSupervisor) startCalled(ctx actor.Context) {
	if ps.doomed {
		return
	}
	w := ps.pool.workerToStart()
	if !ps.pool.core.inbox.Workers().TakeCalled(&w.Member) {
		w.Unclaim()
		return
	}
	ps.spawn(ctx, w, false)
}

// startInstances starts a stage's shared behaviour. If the stage has instances
// instead, and no worker that makes one now, it makes and starts one idle
// instance: a factory that fails is reported at the start.
func (ps *poolSupervisor) startInstances() error {
	c := ps.pool.core
	if c == nil {
		return nil
	}
	if err := c.startVersion(); err != nil {
		return err
	}
	if !c.shares && ps.pool.Want() <= 1 {
		return c.staff.Versions.Stock()
	}
	return nil
}

func (ps *poolSupervisor) allStarted(ctx actor.Context) {
	ps.reportReady(nil)
	ps.scale(ctx) // the number that is wanted may have changed meanwhile
}

// reportReady reports whether all workers could start. Only the first call
// counts.
func (ps *poolSupervisor) reportReady(err error) {
	if ps.ready != nil {
		ps.ready(err)
		ps.ready = nil
	}
}

// workerStarted handles the report of a worker whether it could start.
func (ps *poolSupervisor) workerStarted(ctx actor.Context, m worker.Up) {
	switch {
	case ps.ready == nil || ps.doomed:
	case m.Err != nil:
		ps.giveUp(ctx, m.Err)
	default:
		if ps.awaited--; ps.awaited == 0 {
			ps.allStarted(ctx)
		}
	}
}

// spawn starts an actor for a worker; again if it follows one that crashed.
func (ps *poolSupervisor) spawn(ctx actor.Context, w *worker.Worker, again bool) {
	pid, err := w.Spawn(ctx, fmt.Sprintf("worker-%d", ps.pool.spawns.Add(1)), again)
	if err != nil { // not for the name, which is new
		ps.giveUp(ctx, err)
		return
	}
	ps.workers = append(ps.workers, spawned{pid, w})
}

// scale starts workers, or asks workers to leave, until there are as many as
// are wanted. To get more it first keeps workers that were asked to leave and
// have not left yet.
func (ps *poolSupervisor) scale(ctx actor.Context) {
	if ps.doomed || ps.ready != nil {
		return
	}
	more := ps.pool.Want() - ps.target
	ps.target += more
	if more < 0 {
		ps.pool.group.Shrink(-more)
		return
	}
	for range more - ps.pool.group.Unshrink(more) {
		ps.spawn(ctx, ps.pool.workerToStart(), false)
	}
}

// workerEnded handles the end of a worker's actor.
func (ps *poolSupervisor) workerEnded(ctx actor.Context, pid *actor.PID) {
	i := slices.IndexFunc(ps.workers, func(h spawned) bool { return h.pid.Id == pid.Id })
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
		ps.endRetirement(ctx)
		return
	}
	ps.replace(ctx, w)
}

// replace starts a fresh actor for a worker that crashed, at once or after a
// pause, or gives up if there were too many crashes in a row.
func (ps *poolSupervisor) replace(ctx actor.Context, w *worker.Worker) {
	err := w.Failure()
	if err == nil { // something stopped its actor from outside: no worker ends in this way
		err = fmt.Errorf("stage %q: %w", ps.pool.name(), errVanished)
		ps.pool.group.CrashIdle(&w.Member)
		ps.pool.env.Log.Warn("worker vanished", "stage", ps.pool.name())
	}
	staff := w.Stage()
	if staff == nil { // a shared worker that was at no stage yet
		ps.restart(ctx, w)
		return
	}
	verdict := staff.Inbox.Workers().Judge(&w.Member, ps.target)
	history := ps.crashHistory(staff)
	history.add(err)
	switch {
	case verdict.Streak-ps.target > int(staff.Endures) || verdict.Unstarted-ps.target > int(staff.EnduresStart) && verdict.Since >= staff.StartsFor:
		w.Unclaim()
		ps.giveUp(ctx, history.broken(staff.Inbox, verdict))
	case verdict.Pause > 0:
		history.addPause(verdict.Pause)
		ps.restartAfter(ctx, w, verdict.Pause)
	default:
		ps.restart(ctx, w)
	}
}

// giveUp reports that the pool could not start, or that it cannot go on.
func (ps *poolSupervisor) giveUp(ctx actor.Context, why error) {
	ps.doomed = true
	if ps.ready == nil {
		actor.Fail(ctx, why)
	}
	ps.reportReady(why)
}

// restartAfter restarts a worker after a pause.
func (ps *poolSupervisor) restartAfter(ctx actor.Context, w *worker.Worker, pause time.Duration) {
	system, self := ctx.ActorSystem(), ctx.Self()
	m := &restart{w}
	ps.records().pauses[m] = time.AfterFunc(pause, func() { actor.Tell(system, self, m) })
}

// restart starts a fresh actor for a worker that crashed, unless fewer workers
// are wanted now: it need not be started to be dismissed.
func (ps *poolSupervisor) restart(ctx actor.Context, w *worker.Worker) {
	if ps.doomed || !w.Loaded() && ps.pool.group.Unshrink(1) == 1 {
		w.Unclaim()
		return
	}
	ps.spawn(ctx, w, true)
}

// retire stops all workers.
func (ps *poolSupervisor) retire(ctx actor.Context) {
	ps.reportReady(nil)
	ps.dismiss()
	for _, h := range ps.workers {
		actor.Stop(ctx.ActorSystem(), h.pid)
	}
	ps.endRetirement(ctx)
}

// endRetirement ends the supervisor of a pool that retires when the last worker
// has ended.
func (ps *poolSupervisor) endRetirement(ctx actor.Context) {
	if len(ps.workers) == 0 && ps.pool.retiring.Load() {
		// Before the actor ends: stopped may stop instances for long, and the
		// supervisor above waits only briefly for the end of an actor.
		ps.stopped()
		actor.Fail(ctx, ErrRetired)
	}
}

// dismiss takes back all that would start a worker. It is called before the
// workers are stopped.
func (ps *poolSupervisor) dismiss() {
	ps.doomed = true
	if ps.crashes != nil {
		for m, pause := range ps.crashes.pauses {
			pause.Stop()
			m.w.Unclaim()
		}
		clear(ps.crashes.pauses)
	}
	if c := ps.pool.core; c != nil {
		c.inbox.Workers().DropUnstarted()
	}
}

// stopped is called when all workers have ended.
func (ps *poolSupervisor) stopped() {
	if c := ps.pool.core; c != nil {
		c.stopVersion()
	}
}

// Spawn starts the pool's supervisor as a child of the spawner. The supervisor
// calls ready once, when all workers have started or one of them could not.
func (p *Pool) Spawn(by actor.Spawner, name string, ready func(error)) (*actor.PID, error) {
	return actor.Spawn(by, name, actor.NewMailbox(nil), func() actor.Actor { return newPoolSupervisor(p, ready) })
}

// crashRecords are the records of crashes in a poolSupervisor.
type crashRecords struct {
	pauses    map[*restart]*time.Timer // workers that are started after a pause
	histories map[*worker.Stage]*crashHistory
}

// records returns the records of crashes, for a change.
func (ps *poolSupervisor) records() *crashRecords {
	if ps.crashes == nil {
		ps.crashes = &crashRecords{map[*restart]*time.Timer{}, map[*worker.Stage]*crashHistory{}}
	}
	return ps.crashes
}

// crashHistory returns the history of a stage. It starts a new one if the stage
// has completed a command since its last crash.
func (ps *poolSupervisor) crashHistory(s *worker.Stage) *crashHistory {
	streak := s.Inbox.Workers().CrashStreak().Number
	histories := ps.records().histories
	if h := histories[s]; h != nil && h.streak == streak {
		return h
	}
	for o := range histories { // forget stages that have recovered or are gone: a few at most
		if o.Inbox.Workers().Streak() == 0 {
			delete(histories, o)
		}
	}
	h := &crashHistory{streak: streak}
	histories[s] = h
	return h
}
