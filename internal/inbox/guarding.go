package inbox

import (
	"context"

	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
)

// Guarded reports whether the stage has guards.
func (in *Inbox) Guarded() bool { return in.state.cfg.Guards != nil }

// Held returns how many commands guards hold back, as far as is known.
func (in *Inbox) Held() int {
	if !in.Guarded() {
		return 0
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.queue.line.Held()
}

// Begin moves the permit of a command to its handler, which begins. The context
// is the handler's. The handler gives the permit back by [Inbox.Completed].
func (in *Inbox) Begin(ctx context.Context) (p line.Permit) {
	h, ok := ctx.Value(link.EmitterKey{}).(interface{ AsMember() *Member })
	if !ok {
		return p
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return h.AsMember().Part.TakePermit()
}

// Completed gives a permit back when its handler has ended: returned, crashed
// or was given up. It is called once.
func (in *Inbox) Completed(p line.Permit) {
	var fx effects
	in.mu.Lock()
	in.state.queue.line.Complete(p)
	in.state.callWorker(&fx)
	in.unlock(&fx)
}

// cancelPermit gives back the permit that a worker still has: no handler of its
// batch has begun with it, and none will.
func (s *state) cancelPermit(m *Member) {
	if m.Part != nil {
		s.queue.line.Cancel(m.Part)
	}
}
