package stage

import (
	"context"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
)

// WithDeadline returns a copy of ctx that ends at the time t, as
// [context.WithDeadline] does. Commands that are submitted with it, or with a
// context derived from it, take the deadline along, although their submitter
// does not wait:
//
//	ctx, cancel := stage.WithDeadline(ctx, time.Now().Add(time.Minute))
//	defer cancel() // releases ctx; the commands keep the deadline
//	err := send.Submit(ctx, mail)
//
// The deadline holds for the command, and for all commands that come of it, in
// all stages. A command that still waits then is shed, as soon as [TTL] says,
// with [reason.Expired] and [ErrExpired], and leaves a letter; it is not tried
// again. The context of a handler that runs at that time ends. If ctx has an
// earlier deadline of this kind, that one stays. What a [behaviour.Batcher] is
// handling, and the result of a window, does not end with the deadlines of
// single commands.
//
// If a pipeline is run with such a context, all commands of its feeds have the
// deadline. A plain deadline only ends the run.
//
// The deadline also travels to a stage that runs in another process, with
// commands that are sent and with calls, with calls of package
// coordination/rpc, and with the messages of an inlet of adapter/nats.
//
// The plain deadline of a context bounds how long Submit waits for a free slot,
// and nothing else. With [Stage.Ask] and [Call] a command ends with its
// caller's context in any case. See [TTL] and [ExpiresAt] for limits that a
// stage sets.
func WithDeadline(ctx context.Context, t time.Time) (context.Context, context.CancelFunc) {
	link.CheckContext(ctx, "stage: WithDeadline")
	return command.WithDeadline(ctx, t)
}
