package stage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/act"
	"github.com/golda-dev/golda/worker"
)

// mostAbandoned is how many handlers that were given up may still run. Each holds a
// goroutine and what it works on; beyond so many the stage gives up.
const mostAbandoned = 1024

// errVanished is the failure of a worker that did not say why it ended.
var errVanished = errors.New("a worker ended without being told to")

// keeper is the actor of a pool: it supervises the pool's workers. A stage's own pool
// is kept even while others work for the stage, since the stage's shared behaviour, and
// the instances that nobody uses, are started and stopped here. All it does happens in
// its own goroutine, one message at a time.
type keeper struct {
	pool    *Pool
	ready   func(error)
	started bool // all workers were up once; ready has been told
	doomed  bool // could not start, or gave up: nobody is hired any more
	awaited int  // workers that have not told whether they could start
	hired   int  // workers there should be, as far as the keeper has seen to it

	workers []hired // a few, most often: a map of one is ten times as large
	ills    *ills   // nil: most keepers never see a crash
}

// ills are what crashes have left behind.
type ills struct {
	pauses map[*rehire]*time.Timer // workers to come
	ails   map[*worker.Stage]*ailment
}

// hired is a worker and its actor.
type hired struct {
	pid *act.PID
	w   *worker.Worker
}

// scale asks the keeper to see to the number of workers that is wanted.
type scale struct{}

// called asks the keeper for a worker that dozes.
type called struct{}

// rehire asks the keeper to fill a slot again, after a pause.
type rehire struct{ w *worker.Worker }

// IgnoreDeadLetterLogging marks messages that may come too late.
func (scale) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging marks messages that may come too late.
func (called) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging marks messages that may come too late.
func (*rehire) IgnoreDeadLetterLogging() {}

func newKeeper(p *Pool, ready func(error)) *keeper {
	return &keeper{pool: p, ready: ready}
}

// Receive handles a message to the keeper.
func (k *keeper) Receive(ctx act.Context) {
	switch m := ctx.Message().(type) {
	case *act.Started:
		k.start(ctx)
	case worker.Up:
		k.up(ctx, m)
	case scale:
		k.scale(ctx)
	case called:
		k.come(ctx)
	case *rehire:
		delete(k.ills.pauses, m)
		k.fill(ctx, m.w)
	case *act.Terminated:
		k.gone(ctx, m.Who)
	case *act.Stopping:
		k.stop(ctx)
	case *act.Stopped:
		k.stopped()
	}
}

// HandleFailure is told of a worker that failed. The worker is stopped, never
// restarted in place; its end comes as a message and is dealt with there.
func (k *keeper) HandleFailure(system *act.System, _ act.Supervisor, child *act.PID, _ *act.RestartStatistics, _, _ any) {
	act.Stop(system, child)
}

// start makes the shared instance ready and hires the first workers. The keeper
// is known before it reads how many are wanted, so that a wish is either read
// here or comes as a message.
func (k *keeper) start(ctx act.Context) {
	k.pool.keeper.Store(ctx.Self())
	if err := k.prepare(); err != nil {
		k.fail(err)
		return
	}
	k.pool.gang.Muster()
	// Those who held commands when the stage broke are all called back, even if
	// fewer are wanted now; some leave when they have handed over.
	k.hired = max(k.pool.Want(), k.pool.loaded())
	k.awaited = k.hired
	k.doze()
	for range k.awaited {
		k.hire(ctx, k.pool.slot(), false)
	}
	if k.awaited == 0 {
		k.begun(ctx)
	}
}

// doze has the first workers doze until they are called, most often by a stage's first
// command: those that have nothing to make ready, so that nobody need hear that they cannot,
// and nothing to hand over. A worker and its actor take two kilobytes, and many stages never
// see a command. Several workers with instances of their own do not doze: they make those
// at once, side by side, and all must start.
func (k *keeper) doze() {
	c := k.pool.core
	if c == nil || !c.shares && k.hired > 1 {
		return
	}
	n := k.hired - k.pool.loaded()
	k.awaited -= n
	c.room.Doze(n)
}

// come brings a worker that dozed.
func (k *keeper) come(ctx act.Context) {
	if !k.doomed && k.pool.core.room.Fetch() {
		k.hire(ctx, k.pool.slot(), false)
	}
}

// prepare starts a stage's shared behaviour. Of a stage that others work for, or a worker
// who dozes, it starts one instance, for the shelf: if that cannot be, the start is the time
// to know.
func (k *keeper) prepare() error {
	c := k.pool.core
	if c == nil {
		return nil
	}
	if err := c.raise(); err != nil {
		return err
	}
	if !c.shares && k.pool.Want() <= 1 {
		return worker.Stock(c.staff)
	}
	return nil
}

// begun tells that all workers are up.
func (k *keeper) begun(ctx act.Context) {
	k.started = true
	k.tell(nil)
	k.scale(ctx) // the wish may have changed meanwhile
}

// fail tells that the stage could not start.
func (k *keeper) fail(err error) {
	if !k.doomed && !k.started {
		k.doomed = true
		k.tell(err)
	}
}

// tell tells, once, whether all could start.
func (k *keeper) tell(err error) {
	k.ready(err)
	k.ready = nil
}

// up hears whether a worker could start.
func (k *keeper) up(ctx act.Context, m worker.Up) {
	if k.started || k.doomed {
		return
	}
	if m.Err != nil {
		k.fail(m.Err)
		return
	}
	if k.awaited--; k.awaited == 0 {
		k.begun(ctx)
	}
}

// hire fills a slot with a fresh actor.
func (k *keeper) hire(ctx act.Context, w *worker.Worker, again bool) {
	pid, err := w.Spawn(ctx, fmt.Sprintf("worker-%d", k.pool.hires.Add(1)), again)
	if err != nil { // the name is new, so this is no accident of ours
		k.fail(err)
		act.Fail(ctx, err)
		return
	}
	k.workers = append(k.workers, hired{pid, w})
}

// scale hires or dismisses workers until there are as many as are wanted.
// Workers who were asked to leave and have not yet are kept first.
func (k *keeper) scale(ctx act.Context) {
	if k.doomed || !k.started {
		return
	}
	more := k.pool.Want() - k.hired
	k.hired += more
	if more < 0 {
		k.pool.gang.Shrink(-more)
		return
	}
	for range more - k.pool.gang.Keep(more) {
		k.hire(ctx, k.pool.slot(), false)
	}
}

// gone hears that a worker's actor has ended.
func (k *keeper) gone(ctx act.Context, who *act.PID) {
	i := slices.IndexFunc(k.workers, func(h hired) bool { return h.pid.Id == who.Id })
	if i < 0 {
		return
	}
	w := k.workers[i].w
	k.workers = slices.Delete(k.workers, i, i+1)
	if w.Lost() {
		w = k.pool.renew(w)
	}
	if k.doomed || w.Left() {
		w.Unclaim()
		return
	}
	k.replace(ctx, w)
}

// replace sees to it that a worker that crashed is followed by a fresh one: at
// once, after a pause, or never, if there were too many in a row.
func (k *keeper) replace(ctx act.Context, w *worker.Worker) {
	err := w.Failure()
	if err == nil { // stopped by somebody who should not have: no worker ends so
		err = fmt.Errorf("stage %q: %w", k.pool.name(), errVanished)
		k.pool.gang.CrashIdle()
		k.pool.env.Log.Warn("worker vanished", "stage", k.pool.name())
	}
	staff := w.Staff()
	if staff == nil { // a shared one that was nowhere yet
		k.fill(ctx, w)
		return
	}
	streak := staff.Room.Streak()
	beyond := streak - k.hired
	ail := k.ailment(staff)
	ail.note(err)
	switch {
	case beyond > int(staff.Endures) || staff.Room.StillStuck() > mostAbandoned:
		w.Unclaim()
		k.giveUp(ctx, ail.broken(staff.Room, streak))
	case beyond > 0 && k.pool.crew == nil:
		pause := staff.Pause(beyond)
		ail.pause(pause)
		k.later(ctx, w, pause)
	default: // other stages need a shared worker: it is the stage that rests
		k.fill(ctx, w)
	}
}

// giveUp tells that the pool cannot go on, or that it could not even start.
func (k *keeper) giveUp(ctx act.Context, why *BrokenError) {
	if !k.started {
		k.fail(why)
		return
	}
	k.doomed = true
	act.Fail(ctx, why)
}

// pause is how long the worker after so many crashes too many has to wait. A
// fifth of it is left to chance, so that stages that broke together do not
// come back together.
func (p RestartPolicy) pause(beyond int) time.Duration {
	d := p.Backoff
	for i := 1; i < beyond && d < p.Max; i++ {
		d *= 2
	}
	d = min(d, p.Max)
	return d - time.Duration(rand.Float64()*0.2*float64(d))
}

// later fills a slot after a pause.
func (k *keeper) later(ctx act.Context, w *worker.Worker, pause time.Duration) {
	system, self := ctx.ActorSystem(), ctx.Self()
	m := &rehire{w}
	k.sick().pauses[m] = time.AfterFunc(pause, func() { act.Tell(system, self, m) })
}

// sick is what crashes have left behind, to be changed.
func (k *keeper) sick() *ills {
	if k.ills == nil {
		k.ills = &ills{map[*rehire]*time.Timer{}, map[*worker.Stage]*ailment{}}
	}
	return k.ills
}

// fill fills the slot of a worker that crashed, unless one less is wanted now.
func (k *keeper) fill(ctx act.Context, w *worker.Worker) {
	if k.doomed || !w.Loaded() && k.pool.gang.Spare() {
		w.Unclaim()
		return
	}
	k.hire(ctx, w, true)
}

// stop hears that the stage is to end. Its workers are told next, and awaited.
func (k *keeper) stop(ctx act.Context) {
	k.doomed = true
	for _, h := range k.workers {
		act.Adopt(ctx, h.pid)
	}
	if k.ills != nil {
		for m, pause := range k.ills.pauses {
			pause.Stop()
			m.w.Unclaim()
		}
		clear(k.ills.pauses)
	}
	if c := k.pool.core; c != nil {
		c.room.Dismiss()
	}
}

// stopped is called when all workers have ended.
func (k *keeper) stopped() {
	c := k.pool.core
	if c == nil {
		return
	}
	c.lower()
}
