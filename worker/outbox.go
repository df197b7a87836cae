package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
)

// ErrForeign is the reason why a command failed that was forwarded to a stage
// which is not part of the same running pipeline. A handler may Submit to such
// a stage.
var ErrForeign = errors.New("stage: forwarded to a stage of another pipeline, or of none; " +
	"a channel leads to another pipeline, see source.Chan")

// outbox gathers the commands for one inbox.
type outbox struct {
	to    *inbox.Inbox
	items []command.Envelope
	shown int32      // how many items are pledged
	edges uint32     // the version of the pipeline's edges at which loop was computed
	asked uint32     // the version at which edge was
	edge  inbox.Edge // to the inbox
	loop  bool       // the edge to the inbox is part of a loop
}

// isFull takes a command that the stage of an inbox emits off the pipeline's
// allowance if the edge is part of a loop. It returns true if nothing is left
// of the allowance. A forwarded command needs none, since it is in flight
// already.
func (out *outbox) isFull(from *inbox.Inbox) bool {
	pl := out.to.Pipeline()
	if now := pl.EdgesVersion(); now != out.edges {
		out.loop, out.edges = pl.InLoop(from, out.to), now
	}
	return out.loop && !pl.Allow()
}

// check asks again how the edge from a stage leads, if edges have come or gone
// since. Only then does the graph know that the edge is taken, since it forgets
// edges that are not. If it does not know the inbox, the inbox was removed, and
// ends the commands that come.
func (out *outbox) check(from *inbox.Inbox) {
	pl := from.Pipeline()
	now := pl.EdgesVersion()
	if now == out.asked {
		return
	}
	out.asked = now
	if edge, ok := pl.Reach(from, out.to); ok {
		out.edge = edge
	}
}

// newOutbox returns a new outbox of a stage for an inlet.
func newOutbox(from *inbox.Inbox, to *behaviour.Inlet) (*outbox, error) {
	next, ok := to.Inbox().(*inbox.Inbox)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrForeign, to.Name())
	}
	now := from.Pipeline().EdgesVersion()
	edge, ok := from.Pipeline().Reach(from, next)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrForeign, to.Name())
	}
	return &outbox{to: next, edge: edge, asked: now}, nil
}

// hand hands a command over by itself, and waits until it is queued. Emitter is
// the inbox that counts it as emitted, nil if it is counted already.
func (out *outbox) hand(ctx context.Context, e command.Envelope, emitter *inbox.Inbox, shared bool) error {
	err := out.to.Senders().Send(ctx, e, emitter, out.edge.Back, shared)
	if err == nil {
		out.edge.Moved.Add(1)
	}
	return err
}
