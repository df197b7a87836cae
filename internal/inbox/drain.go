package inbox

// Open lets commands in, and ends the inbox's drain if there was one.
func (ph Phases) Open() {
	ph.in.transition(func(s *state, fx *effects) {
		s.change(toOpen)
		s.opened = true
		s.retrySenders(fx)
	})
}

// Close refuses commands from outside from now on, also commands of submitters
// that wait for a slot. Commands that other inboxes hand over are still taken.
func (ph Phases) Close() {
	ph.in.transition(func(s *state, fx *effects) {
		s.change(toClose)
		s.dismissWaiters(fx)
		s.callWorker(fx) // no batch lingers any more
		s.lookAtEntries(fx)
	})
}

// Drain starts the inbox's drain, or starts it anew.
func (ph Phases) Drain() {
	ph.in.transition(func(s *state, fx *effects) {
		s.change(toDrain)
		s.dismissWaiters(fx)
		s.visits.stalled = false // it is not barred any more; if an inbox ahead is full, the next visit stalls it again
		s.callWorker(fx)         // no batch lingers any more
		s.lookAtEntries(fx)
	})
}

// BlockUpstream starts the second step of the drain: all inboxes before this
// one are empty.
func (ph Phases) BlockUpstream() { ph.in.Phases().proceed(toBar) }

// BlockBackEdges starts the third step of the drain: the inbox was seen to be
// empty.
func (ph Phases) BlockBackEdges() { ph.in.Phases().proceed(toSeal) }

// proceed takes a step, unless the drain has ended or started anew meanwhile.
func (ph Phases) proceed(ev event) {
	ph.in.mu.Lock()
	defer ph.in.mu.Unlock()
	ph.in.state.change(ev)
}

// EndDrain ends the inbox's drain and leaves it closed. Handlers cannot submit
// to it any more.
func (ph Phases) EndDrain() {
	ph.in.transition(func(s *state, fx *effects) {
		s.change(toEndDrain)
		s.dismissWaiters(fx)
		s.retrySenders(fx)
		s.lookAtEntries(fx)
	})
}

// UnblockSenders has barred senders try again that are not barred any more,
// because their own stages are drained now.
func (ph Phases) UnblockSenders() {
	ph.in.transition(func(s *state, fx *effects) {
		s.retrySenders(fx)
	})
}

// Stopped reports whether the inbox was open once and takes nothing from
// outside any more, and whether it is halted.
func (ph Phases) Stopped() (closed, halted bool) {
	ph.in.mu.Lock()
	defer ph.in.mu.Unlock()
	return ph.in.state.opened && ph.in.state.phase() != open, ph.in.state.halted.Load()
}

// Halt ends everything that is queued or waits for its next try: it will not be
// done. A worker finishes the command that it has started and ends the others
// in its batch; see [Phases.Halted]. Suspended commands stay so. Halt returns
// the function that reports the commands that ended, which may take its time.
func (ph Phases) Halt() (report func()) {
	var fx effects
	ph.in.mu.Lock()
	ph.in.state.change(toHalt)
	ph.in.state.dismissWaiters(&fx) // before the queue is emptied: it may fill it
	ph.in.state.suspendQueued()
	left := ph.in.state.queue.takeAll()
	ph.in.state.queue.line.Release(ph.in.state.delayed.ranks()...)
	left = append(left, ph.in.state.delayed.clear()...)
	ph.in.state.timers.stop()
	ph.in.state.endStopped(left, &fx)
	ph.in.state.releaseSenders(&fx)
	for _, m := range ph.in.state.workers.CallAll(func(*Member) bool { return true }) {
		fx.wakeWorker(m)
	}
	ph.in.state.voidTokens(&fx)
	fx.unstall(ph.in.state.visits.behind...)
	ph.in.state.visits.behind = nil
	ph.in.state.lookAtEntries(&fx)
	report = fx.later(ph.in)
	ph.in.unlock(&fx)
	ph.in.Results().Flush()
	return report
}

// retrySenders has those barred senders try again that the present phase does
// not bar.
func (s *state) retrySenders(fx *effects) {
	s.unbar(fx)
	var ahead []sender
	barred := s.senders.barred[:0]
	for _, p := range s.senders.barred {
		switch {
		case s.bars(p.m.own, p.back):
			barred = append(barred, p)
		case p.back: // it needs no slot
			p.m.attendance.SetReady(true)
			fx.wakeWorker(p.m)
		default:
			ahead = append(ahead, p)
		}
	}
	clear(s.senders.barred[len(barred):])
	s.senders.barred = barred
	s.senders.forSlots = append(ahead, s.senders.forSlots...)
	s.changed(fx)
}
