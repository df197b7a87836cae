package inbox

import (
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/synchronize"
)

// Guarded reports whether the stage has guards.
func (in *Inbox) Guarded() bool { return in.cfg.Guards != nil }

// Held returns how many commands guards hold back, as far as is known.
func (in *Inbox) Held() int {
	if !in.Guarded() {
		return 0
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.queue.guarded.held()
}

// Began returns why a command that is about to be handled is not: a guard did not return when it was asked about it. The command
// crashes with that. Of two equal commands it may be either.
func (in *Inbox) Began(method string, cmd any) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.queue.guarded.fault(method, cmd)
}

// Completed books that the handler of a command of a stage with guards has ended, in whatever way. The stage reports each handler
// that has begun, once. The error is that a trigger of a synchronizer did not return.
func (in *Inbox) Completed(method string, cmd any) error {
	var fx effects
	in.mu.Lock()
	err := in.queue.guarded.completed(method, cmd)
	in.callWorker(&fx)
	in.unlock(&fx)
	return err
}

// Unhandled books that commands of a worker's batch crash before their handlers are called. It does nothing in a stage without guards.
func (in *Inbox) Unhandled(es []command.Envelope) {
	if !in.Guarded() {
		return
	}
	at := in.payers(es)
	var fx effects
	in.mu.Lock()
	in.cancelGuarded(es, at)
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
	in.lookAtEntries(&fx)
	in.unlock(&fx)
}

// cancelGuarded books that commands which were given out ended without having been handled. The places are those of the commands.
func (s *state) cancelGuarded(es []command.Envelope, of places) {
	g := s.queue.guarded
	if g == nil {
		return
	}
	for i, k := range of.keys {
		if es[i].Woken() {
			continue
		}
		g.cancelled(g.names.name(k), link.Bare(es[i].Load))
	}
}

// Synchronize makes the stage a member of the board of its pipeline, whose rules hold its commands back from now on. The stage has guards,
// if only empty ones, and the inbox has not been opened.
func (in *Inbox) Synchronize(m *synchronize.Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.queue.guarded == nil {
		in.queue.byMethod(in.cfg.Guards.Method, newGuarded(in.cfg.Name, in.cfg.Guards, in.now, in.mu.Unlock))
	}
	in.queue.guarded.coordinate(m, in.able)
	m.Poke = in.poked
}

// able reports whether a command that an atomic rule allows would be given out: by the next worker that is free.
func (s *state) able() bool {
	switch {
	case s.knobs.Paused, s.halted.Load(), s.live == 0 && s.pool == nil:
		return false
	case s.queue.woken == nil:
		return true
	}
	return s.knobs.Instances-s.counts.inHand-s.runnable() > 0
}

// poked has the rules evaluated: the board says that they may allow more.
func (in *Inbox) poked() {
	var fx effects
	in.mu.Lock()
	g := in.queue.guarded
	g.stale()
	g.enter()
	g.member.Poked()
	g.leave()
	in.callWorker(&fx)
	in.unlock(&fx)
}

// settle tells the board how a transition has ended, and has it pass on what this inbox does not use.
func (s *state) settle(fx *effects) {
	g := s.queue.guarded
	if g.member.Offers() {
		if g.able() != g.wasAble {
			g.stale()
		}
		if due := g.due; !g.looked {
			if g.look(); due == nil && g.due != nil {
				s.callWorker(fx)
			}
		}
	}
	if g.member.HasTurn() {
		g.enter()
		g.member.Settle(s.workerComes)
		g.leave()
	}
	if pokes := g.member.Pokes(); pokes != nil {
		x := fx.other()
		x.pokes = append(x.pokes, pokes...)
	}
}

// workerComes reports whether a worker is on its way to the inbox. Of a shared pool's workers one is, unless another inbox has something
// for it first; then it has this one settle again.
func (s *state) workerComes() bool {
	return s.waking > 0 || s.unstarted.called || s.pool != nil && s.pool.comes(s)
}

// searched has the expectant inbox look again: a worker has ended its search, and may do something else now. No lock is held.
func (sp *SharedPool) searched() {
	if sp.expectant.Load() == nil {
		return
	}
	if in := sp.expectant.Swap(nil); in != nil {
		in.lookAtTurn()
	}
}

// lookAtTurn has the inbox settle again, if it still has the turn: a worker that was on its way may have gone elsewhere.
func (in *Inbox) lookAtTurn() {
	if !in.queue.guarded.member.HasTurn() {
		return
	}
	var fx effects
	in.mu.Lock()
	in.callWorker(&fx)
	in.unlock(&fx)
}
