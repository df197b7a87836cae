package worker

import "github.com/golda-dev/golda/internal/actor"

// Up notifies the supervisor that a worker's actor is ready, or why it is not.
type Up struct {
	Worker *Worker
	Err    error
}

// IgnoreDeadLetterLogging marks a message that may arrive after its receiver
// has ended.
func (Up) IgnoreDeadLetterLogging() {}

// Spawn starts an actor in the worker, as a child of the supervisor with the
// given context. Again says that the actor replaces one that crashed.
func (w *Worker) Spawn(supervisor actor.Context, name string, again bool) (*actor.PID, error) {
	w.acting.failure, w.acting.left, w.acting.again = nil, false, again
	box := actor.NewMailbox((*mailboxFeed)(w))
	w.slot.box.Store(box)
	return actor.Spawn(supervisor, name, box, func() actor.Actor { return (*actorRole)(w) })
}

// mailboxFeed is the worker as its mailbox sees it.
type mailboxFeed Worker

func (f *mailboxFeed) Ready() bool { return f.Member.Ready() && f.slot.fate.Load() == inService }

func (f *mailboxFeed) Len() int {
	if f.pool != nil {
		return f.pool.Len()
	}
	return f.stage.Inbox.Len()
}

// actorRole is the worker as an actor.
type actorRole Worker

// Receive handles a message to the actor.
func (h *actorRole) Receive(ctx actor.Context) {
	w := (*Worker)(h)
	if w.Lost() {
		return // the actor has returned too late: the worker's accounts are settled
	}
	switch ctx.Message().(type) {
	case *actor.Turn:
		w.serve()
	case *actor.Started:
		w.startActor(ctx)
	case *actor.Stopping:
		w.endActor()
	}
}

// startActor joins the inbox or the shared pool. A worker of a stage's own
// makes its instance first, so that the supervisor learns at once that a stage
// cannot start. A shared worker makes instances when it needs them.
func (w *Worker) startActor(ctx actor.Context) {
	w.acting.self = ctx
	if w.pool != nil {
		w.pool.Join(&w.Member)
		ctx.Send(ctx.Parent(), Up{w, nil})
		return
	}
	w.acting.failure = w.join(w.acting.again)
	ctx.Send(ctx.Parent(), Up{w, w.acting.failure})
	if w.acting.failure != nil {
		actor.Fail(ctx, w.acting.failure)
	}
}

// endActor books the commands that are not booked, leaves the inbox or the
// pool, and returns the instance or stops it.
func (w *Worker) endActor() {
	if w.stage != nil {
		w.stage.Inbox.Book(&w.Member, &w.progress.tally, nil)
		w.deliver(false)
	}
	if w.pool != nil {
		w.leavePool()
	} else {
		if !w.out.pending() {
			w.stage.Inbox.Yield(&w.Member)
		}
		w.stage.Inbox.Workers().Leave(&w.Member)
	}
	if w.acting.failure == nil && w.Member.Instance == nil {
		w.use(nil) // it is back among the idle instances
	}
	w.stopInstances()
	w.releaseInstance()
	w.acting.self = nil
}

// Unload hands over what the last actor left behind, as far as there are free
// slots. The supervisor calls it when it has claimed the worker.
func (w *Worker) Unload() { w.deliver(false) }

// join makes an instance, if the inbox lends none, and joins the stage's own
// workers.
func (w *Worker) join(again bool) error {
	if err := w.takeInstance(w.stage.Inbox.Instances().Claim(&w.Member)); err != nil {
		w.stage.Inbox.Workers().CrashIdle(&w.Member)
		w.stage.Inbox.Workers().Leave(&w.Member)
		return err
	}
	w.stage.Inbox.Workers().Join(&w.Member, again)
	return nil
}

// quit leaves the shared pool, if the worker is in one, and fails towards the
// supervisor.
func (w *Worker) quit(err error) {
	w.leavePool()
	actor.Fail(w.acting.self, err)
}

func (w *Worker) leavePool() {
	if w.pool != nil {
		w.pool.Leave(&w.Member, &w.progress.tally)
	}
}
