package inbox

// Open lets commands in, and ends the inbox's drain if there was one.
func (in *Inbox) Open() {
	var fx effects
	in.mu.Lock()
	in.state.change(toOpen)
	in.state.opened = true
	in.state.retrySenders(&fx)
	in.unlock(&fx)
}

// Close refuses commands from outside from now on, also commands of submitters
// that wait for a slot. Commands that other inboxes hand over are still taken.
func (in *Inbox) Close() {
	var fx effects
	in.mu.Lock()
	in.state.change(toClose)
	in.state.dismissWaiters(&fx)
	in.state.callWorker(&fx) // no batch lingers any more
	in.state.lookAtEntries(&fx)
	in.unlock(&fx)
}

// Drain starts the inbox's drain, or starts it anew.
func (in *Inbox) Drain() {
	var fx effects
	in.mu.Lock()
	in.state.change(toDrain)
	in.state.dismissWaiters(&fx)
	in.state.visits.stalled = false // it is not barred any more; if an inbox ahead is full, the next visit stalls it again
	in.state.callWorker(&fx)        // no batch lingers any more
	in.state.lookAtEntries(&fx)
	in.unlock(&fx)
}

// BlockUpstream starts the second step of the drain: all inboxes before this
// one are empty.
func (in *Inbox) BlockUpstream() { in.proceed(toBar) }

// BlockBackEdges starts the third step of the drain: the inbox was seen to be
// empty.
func (in *Inbox) BlockBackEdges() { in.proceed(toSeal) }

// proceed takes a step, unless the drain has ended or started anew meanwhile.
func (in *Inbox) proceed(ev event) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.state.change(ev)
}

// EndDrain ends the inbox's drain and leaves it closed. Handlers cannot submit
// to it any more.
func (in *Inbox) EndDrain() {
	var fx effects
	in.mu.Lock()
	in.state.change(toEndDrain)
	in.state.dismissWaiters(&fx)
	in.state.retrySenders(&fx)
	in.state.lookAtEntries(&fx)
	in.unlock(&fx)
}

// UnblockSenders has barred senders try again that are not barred any more,
// because their own stages are drained now.
func (in *Inbox) UnblockSenders() {
	var fx effects
	in.mu.Lock()
	in.state.retrySenders(&fx)
	in.unlock(&fx)
}

// Halt ends everything that is queued or waits for its next try: it will not be
// done. A worker finishes the command that it has started and ends the others
// in its batch; see [Inbox.Halted]. Suspended commands stay so. Halt returns
// the function that reports the commands that ended, which may take its time.
func (in *Inbox) Halt() (report func()) {
	var fx effects
	in.mu.Lock()
	in.state.change(toHalt)
	in.state.dismissWaiters(&fx) // before the queue is emptied: it may fill it
	in.state.suspendQueued()
	left := in.state.queue.takeAll()
	in.state.queue.line.Release(in.state.delayed.ranks()...)
	left = append(left, in.state.delayed.clear()...)
	in.state.timers.stop()
	in.state.endStopped(left, &fx)
	in.state.releaseSenders(&fx)
	for _, m := range in.state.workers.wakeIdle(len(in.state.workers.idle)) {
		fx.wakeWorker(m)
	}
	in.state.voidTokens()
	fx.unstall(in.state.visits.behind...)
	in.state.visits.behind = nil
	in.state.lookAtEntries(&fx)
	report = fx.later(in)
	in.unlock(&fx)
	in.Flush()
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
			p.m.ready.Store(true)
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
