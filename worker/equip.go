package worker

// equip ensures that the worker has an instance of the present version. It
// stops an instance of another version before it makes a new instance.
func (w *Worker) equip() error {
	if w.gear.instance == nil {
		w.useLent()
	}
	if w.stage.moving.Load() > 0 {
		w.renew()
	}
	if w.gear.instance == nil {
		return w.makeInstance()
	}
	return nil
}

// makeInstance makes an instance and starts it.
func (w *Worker) makeInstance() error {
	inst, err := w.stage.newInstance(w.handling())
	if err != nil {
		return err
	}
	w.use(inst)
	w.Member.Instance = inst
	return nil
}

// use gives the worker an instance, nil for none.
func (w *Worker) use(inst Instance) {
	w.gear.instance = inst
	if inst != nil {
		w.gear.executor = w.stage.executorOf(inst)
	}
}

// useLent has the worker use the instance that the inbox has lent, if any.
func (w *Worker) useLent() {
	inst, _ := w.Member.Instance.(Instance)
	w.use(inst)
}

// renew stops the worker's instance unless it is of the present version.
func (w *Worker) renew() {
	w.use(w.stage.renew(w.gear.instance))
	w.Member.Instance = nilOr(w.gear.instance)
}

// renewIdle renews the instance of a worker that has nothing to do, so that a
// worker of the stage's own keeps no instance of an old version.
func (w *Worker) renewIdle() {
	if w.gear.instance == nil || w.stage.moving.Load() == 0 {
		return
	}
	w.renew()
	if w.gear.instance == nil {
		w.stage.Inbox.ReturnInstance(&w.Member)
	}
}

// stopInstances stops the worker's instance, and a surplus one.
func (w *Worker) stopInstances() {
	w.stopSurplus()
	inst := w.gear.instance
	w.use(nil)
	w.Member.Instance = nil
	if inst != nil {
		StopInstance(w.stage, inst)
	}
}

// stopSurplus stops the instance that the inbox says is one too many.
func (w *Worker) stopSurplus() {
	if inst, ok := w.Member.Surplus.(Instance); ok {
		w.Member.Surplus = nil
		StopInstance(w.stage, inst)
	}
}
