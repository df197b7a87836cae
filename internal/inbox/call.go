package inbox

// checkFull notes that the inbox has become full, once until half of it is free
// again.
func (s *state) checkFull(fx *effects) {
	if s.slots.full || s.takenSlots() < s.knobs.Capacity {
		return
	}
	s.slots.full, fx.full, fx.some = true, true, true
}

// checkQuiet notes that a drain may be waiting for the inbox, if the inbox is
// empty, or has only commands that wait for others.
func (s *state) checkQuiet(fx *effects) {
	pl := s.pipeline.Load()
	if pl == nil || !pl.Draining.Load() && s.phase() < draining || s.load() > s.mayBeHeld() {
		return
	}
	fx.quiet, fx.some = true, true
}

// lookAtEntries has the submitters that wait at the pipeline's entry check
// again whether they may enter. A submitter that is not counted yet looks at
// the inbox after this transition.
func (s *state) lookAtEntries(fx *effects) {
	if pl := s.pipeline.Load(); pl != nil && pl.entry.Waited() {
		fx.entries, fx.some = true, true
	}
}

// callWorker wakes one idle worker of the stage, or starts one, unless a worker
// is already on its way. A shared pool gets a token instead. Even then a worker
// of the stage's own is called if it still carries commands: it has an
// instance, and no other worker can hand these commands over.
func (s *state) callWorker(fx *effects) {
	if s.visits.pool != nil {
		s.addTokens(fx)
		if s.slots.carried == 0 {
			return
		}
	}
	full := s.instances.busy >= s.knobs.Instances
	switch {
	case len(s.workers.idle)+int(s.unstarted.n) == 0 || s.workers.waking > 0 || s.unstarted.called, // none can be called, or one is on its way
		full && s.slots.carried == 0 || s.available() == 0 || s.leftToOne(): // none is needed
		return
	}
	m := s.workers.pickIdle(s.canWork)
	if m == nil && s.visits.pool == nil && !full && s.unstarted.n > 0 && s.equippable() {
		s.unstarted.called = true
		m = &Member{Wake: s.self.StartWorker}
	}
	fx.wakeWorker(m)
}

// mayCome reports whether a worker has an instance that it counts for, or
// another may be used.
func (s *state) mayCome(m *Member) bool {
	return m.custody.inUse || s.instances.busy < s.knobs.Instances
}

// canWork reports whether a worker that is called would find work: it has an
// instance, or will get one, and may take one of the available commands.
func (s *state) canWork(m *Member) bool {
	return s.mayCome(m) && (m.custody.owns || s.equippable()) && (!s.isLaden(m) || s.runnable() > 0)
}
