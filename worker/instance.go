package worker

import (
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/version"
)

// Handler is how an instance of a stage's behaviour handles commands. Its life
// is a [version.Instance]'s; each instance is both.
type Handler interface {
	// Handle handles one command, given as its envelope has it. It is called on
	// a coroutine if the instance suspends.
	Handle(ctx context.Context, load any) behaviour.Outcome
	// HandleEach handles the commands of a batch, one after the other, until
	// [Worker.Halts] is set. It calls [Worker.Settle] with the outcome of each.
	// The loop is in the instance so that a command costs one indirect call,
	// not two.
	HandleEach(ctx context.Context, w *Worker, batch Batch)
	// HandleMany handles the commands of a batch. It is called instead of
	// Handle if the instance takes whole batches.
	HandleMany(ctx context.Context, batch Batch) []behaviour.Outcome
}

// instance is one value of a stage's behaviour, with the command type erased by
// the stage.
type instance interface {
	version.Instance
	Handler
}

// equip ensures that the worker has an instance of the present version. It
// stops an instance of another version before it makes a new instance.
func (w *Worker) equip() error {
	if w.gear.instance == nil {
		w.useLent()
	}
	if w.stage.Versions.Moving() {
		w.renew()
	}
	if w.gear.instance == nil {
		return w.makeInstance()
	}
	return nil
}

// makeInstance makes an instance and starts it.
func (w *Worker) makeInstance() error {
	inst, err := w.stage.Versions.NewInstance(&w.base)
	if err != nil {
		return err
	}
	w.use(inst.(instance))
	w.Member.Instance = inst
	return nil
}

// use gives the worker an instance, nil for none.
func (w *Worker) use(inst instance) {
	w.gear.instance = inst
	if inst != nil {
		w.gear.executor = w.stage.executorOf(inst)
	}
}

// useLent has the worker use the instance that the inbox has lent, if any.
func (w *Worker) useLent() {
	inst, _ := w.Member.Instance.(instance)
	w.use(inst)
}

// takeInstance takes the instance that the inbox has lent, or makes one if the
// inbox says so.
func (w *Worker) takeInstance(make bool) error {
	if make {
		return w.makeInstance()
	}
	w.useLent()
	return nil
}

// renew stops the worker's instance unless it is of the present version.
func (w *Worker) renew() {
	if w.gear.instance != nil && w.stage.Versions.Renew(w.gear.instance) == nil {
		w.use(nil)
		w.Member.Instance = nil
	}
}

// renewIdle renews the instance of a worker that has nothing to do, so that a
// worker of the stage's own keeps no instance of an old version.
func (w *Worker) renewIdle() {
	if w.gear.instance == nil || !w.stage.Versions.Moving() {
		return
	}
	w.renew()
	if w.gear.instance == nil {
		w.stage.Inbox.Instances().Return(&w.Member)
	}
}

// stopInstances stops the worker's instance, and a surplus one.
func (w *Worker) stopInstances() {
	w.stopSurplus()
	inst := w.gear.instance
	w.use(nil)
	w.Member.Instance = nil
	if inst != nil {
		w.stage.Versions.Stop(inst)
	}
}

// stopSurplus stops the instance that the inbox says is one too many.
func (w *Worker) stopSurplus() {
	if inst, ok := w.Member.Surplus.(instance); ok {
		w.Member.Surplus = nil
		w.stage.Versions.Stop(inst)
	}
}

// releaseInstance reports to the inbox that the instance which the worker had
// is stopped. Only now may another one take its place.
func (w *Worker) releaseInstance() {
	if w.stage == nil {
		return
	}
	if w.pool != nil {
		w.stage.Inbox.Yield(&w.Member)
	}
	w.stage.Inbox.Instances().Return(&w.Member)
	w.stopSurplus()
	w.stage.Versions.Sweep()
}
