package stage

import (
	"context"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
)

// WithDeadline returns a copy of ctx that ends at the time t, as [context.WithDeadline] does, and whose deadline travels with
// the commands that are submitted with it, and with contexts derived from it, although their submitter does not wait:
//
//	ctx, cancel := stage.WithDeadline(ctx, time.Now().Add(time.Minute))
//	defer cancel() // releases ctx; the commands keep the deadline
//	err := send.Submit(ctx, mail)
//
// The deadline is that of the command, and of all commands that come of it, in all stages. A command whose turn comes later is
// shed, with [reason.Expired] and [ErrExpired], and leaves a letter; it is not tried again. The context of a handler that runs at
// that time ends. If ctx has an earlier deadline of this kind, that one stays. What a [behaviour.Batcher] is handling, and
// the result of a window, does not end with the deadlines of single commands.
// A pipeline that is run with such a context gives the deadline to all commands of its feeds; a plain deadline ends the run alone.
//
// A deadline of another kind bounds how long Submit waits for a free slot, and nothing else. With [Stage.Ask] and [Call] a command
// ends with its caller's context in any case. See [TTL] and [ExpiresAt] for limits that a stage sets.
func WithDeadline(ctx context.Context, t time.Time) (context.Context, context.CancelFunc) {
	link.CheckContext(ctx, "stage: WithDeadline")
	return command.WithDeadline(ctx, t)
}
