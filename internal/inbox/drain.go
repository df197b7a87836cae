package inbox

// Open lets commands in, and ends the inbox's drain if there was one.
func (in *Inbox) Open() {
	var fx effects
	in.mu.Lock()
	in.change(toOpen)
	in.opened = true
	in.retrySenders(&fx)
	in.unlock(&fx)
}

// Close refuses commands from outside from now on, also commands of submitters
// that wait for a slot. Commands that other inboxes hand over are still taken.
func (in *Inbox) Close() {
	var fx effects
	in.mu.Lock()
	in.change(toClose)
	in.dismissWaiters(&fx)
	in.callWorker(&fx) // no batch lingers any more
	in.lookAtEntries(&fx)
	in.unlock(&fx)
}

// Drain starts the inbox's drain, or starts it anew.
func (in *Inbox) Drain() {
	var fx effects
	in.mu.Lock()
	in.change(toDrain)
	in.dismissWaiters(&fx)
	in.stalled = false // it is not barred any more; if an inbox ahead is full, the next visit stalls it again
	in.callWorker(&fx) // no batch lingers any more
	in.lookAtEntries(&fx)
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
	in.change(ev)
}

// EndDrain ends the inbox's drain and leaves it closed. Handlers cannot submit
// to it any more.
func (in *Inbox) EndDrain() {
	var fx effects
	in.mu.Lock()
	in.change(toEndDrain)
	in.dismissWaiters(&fx)
	in.retrySenders(&fx)
	in.lookAtEntries(&fx)
	in.unlock(&fx)
}

// UnblockSenders has barred senders try again that are not barred any more,
// because their own stages are drained now.
func (in *Inbox) UnblockSenders() {
	var fx effects
	in.mu.Lock()
	in.retrySenders(&fx)
	in.unlock(&fx)
}

// Halt ends everything that is queued or waits for its next try: it will not be
// done. A worker finishes the command that it has started and ends the others
// in its batch; see [Inbox.Halted]. Suspended commands stay so. Halt returns
// the function that reports the commands that ended, which may take its time.
func (in *Inbox) Halt() (report func()) {
	var fx effects
	in.mu.Lock()
	in.change(toHalt)
	in.dismissWaiters(&fx) // before the queue is emptied: it may fill it
	in.suspendQueued()
	left := in.queue.takeAll()
	in.queue.line.Release(in.delayed.ranks()...)
	left = append(left, in.delayed.clear()...)
	in.timers.stop()
	in.endStopped(left, &fx)
	in.releaseSenders(&fx)
	for _, m := range in.wakeIdle(len(in.idle)) {
		fx.wakeWorker(m)
	}
	in.voidTokens()
	fx.unstall(in.behind...)
	in.behind = nil
	in.lookAtEntries(&fx)
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
	barred := s.barred[:0]
	for _, p := range s.barred {
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
	clear(s.barred[len(barred):])
	s.barred = barred
	s.forSlots = append(ahead, s.forSlots...)
	s.changed(fx)
}
