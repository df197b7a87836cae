package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
)

// forget forgets those of the edges left over by wires that are to be forgotten, when nothing is on its way along them. It
// waits twice: first until no handler is at work that may have read an old wire, and all that such handlers sent has arrived.
// From then on an edge is taken only by handlers that name its target, which the graph is to know. So it waits until each
// worker has asked the graph anew, and then it is known which edges are not taken. If there is an error, the edges stay.
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
			c.Inbox().Mark(&inbox.Mark{To: others})
			defer c.Inbox().Unmark()
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

// passed reports whether nothing that workers had at the mark is on its way. The first time, nothing may wait in the stage for
// its turn either, or for the end of a handler that is suspended: then what has left is with workers that the second mark counts.
func (e edge) passed(again bool) bool {
	return e.from.Inbox().Marked() == 0 && (again || !e.from.Owes(e.to.Inlet()))
}

// wait waits until something is so, or ctx ends, or the pipeline stops hard or has stopped.
func (p *Pipeline) wait(ctx context.Context, so func() bool) error {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !so() {
		select {
		case <-poll.C:
		case <-p.halting.Done():
			return ErrStopped
		case <-p.stopped:
			return ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
