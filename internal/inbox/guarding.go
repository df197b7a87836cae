package inbox

import (
	"context"

	"github.com/golda-dev/golda/internal/link"
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

// Begin moves the permit of a command to its handler, which begins. The context is the handler's. The handler gives the permit back by
// [Inbox.Completed].
func (in *Inbox) Begin(ctx context.Context) (p Permit) {
	h, ok := ctx.Value(link.EmitterKey{}).(interface{ AsMember() *Member })
	if !ok {
		return p
	}
	m := h.AsMember()
	in.mu.Lock()
	defer in.mu.Unlock()
	p, m.permit = m.permit, p
	return p
}

// Completed gives a permit back: the handler has ended, in whatever way. It is called once.
func (in *Inbox) Completed(p Permit) {
	var fx effects
	in.mu.Lock()
	in.queue.guarded.completed(p)
	in.callWorker(&fx)
	in.unlock(&fx)
}

// tellPermit gives a worker the permit of the command in its batch that has not been started: there is at most one.
func (s *state) tellPermit(m *Member) {
	m.permit, s.queue.guarded.given = s.queue.guarded.given, Permit{}
}

// cancelPermit gives back the permit that a worker still has: no handler of its batch has begun with it, and none will.
func (s *state) cancelPermit(m *Member) {
	if !m.permit.valid {
		return
	}
	p := m.permit
	m.permit = Permit{}
	s.queue.guarded.cancelled(p)
}
