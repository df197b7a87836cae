package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
)

// forget removes the chosen edges that earlier wires have left in the graph,
// when no command is on its way along them. It waits twice. First it waits
// until no handler runs that may have read an old wire, and all commands of
// such handlers have arrived. From then on only handlers that name its target
// take an edge, and such an edge must stay in the graph. So it waits until each
// worker has asked the graph anew; then it is known which edges are not taken.
// If there is an error, the edges stay.
func (p *Pipeline) forget(ctx context.Context, which func(edge) bool) error {
	to := map[*engine.Core][]*inbox.Inbox{}
	var all []edge
	for _, e := range p.left {
		if which(e) {
			all = append(all, e)
			to[e.from] = append(to[e.from], e.to)
		}
	}
	for _, again := range []bool{false, true} {
		for _, e := range all {
			if again {
				p.graph.Untake(e.from.Inbox(), e.to)
			}
		}
		for c, others := range to {
			c.Inbox().Marks().Set(&inbox.Mark{To: others})
			defer c.Inbox().Marks().Clear()
		}
		for _, e := range all {
			if err := p.wait(ctx, func() bool { return e.passed(again) }); err != nil {
				return fmt.Errorf("stage %q may still send commands to stage %q: %w", e.from.Name(), e.to.Name(), err)
			}
		}
	}
	for _, e := range all {
		p.graph.Forget(e.from.Inbox(), e.to)
	}
	p.left = slices.DeleteFunc(p.left, which)
	return nil
}

// passed reports whether no command that workers had at the mark is on its way.
// The first time, no command may wait in the stage for its turn or for the end
// of a suspended handler either: then every command that has left the stage is
// with a worker that the second mark counts.
func (e edge) passed(again bool) bool {
	return e.from.Inbox().Marks().Left() == 0 && (again || !e.from.Owes(e.to.Inlet()))
}

// wait waits until something is so, or ctx ends, or the pipeline stops hard or
// has stopped.
func (p *Pipeline) wait(ctx context.Context, so func() bool) error {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !so() {
		select {
		case <-poll.C:
		case <-p.life.halting.Done():
			return ErrStopped
		case <-p.life.stopped:
			return ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
