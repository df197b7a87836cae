package inbox

// Guarded reports whether the stage has guards.
func (in *Inbox) Guarded() bool { return in.cfg.Guards != nil }

// Began returns why a command that is about to be handled is not: a guard did not return when it was asked about it. The command
// crashes with that. Of two equal commands it may be either.
func (in *Inbox) Began(method string, cmd any) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.queue.guarded.fault(method, cmd)
}

// Completed books that the handler of a command of a stage with guards has ended, in whatever way. The stage reports each handler
// that has begun, once.
func (in *Inbox) Completed(method string) {
	var fx effects
	in.mu.Lock()
	in.queue.guarded.completed(method)
	in.callWorker(&fx)
	in.unlock(&fx)
}

// CheckGuards has the guards evaluated: what they see may have changed.
func (in *Inbox) CheckGuards() {
	if !in.Guarded() {
		return
	}
	var fx effects
	in.mu.Lock()
	in.queue.guarded.stale()
	in.callWorker(&fx)
	in.unlock(&fx)
}

// cancelGuarded books that commands which were given out ended without having been handled. The places are those of the commands.
func (s *state) cancelGuarded(of places) {
	if s.queue.guarded == nil {
		return
	}
	for _, k := range of.keys {
		s.queue.guarded.cancelled(s.queue.guarded.names.name(k))
	}
}
