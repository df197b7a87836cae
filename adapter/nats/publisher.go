package nats

import (
	"context"
	"errors"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage"
)

// Publisher returns a stage that publishes its commands to the inlet, and sends
// each of them on when the server has it; a publisher that leads nowhere is the
// end of their way. The function id returns the ID of a command, see
// [Inlet.Publish]; nil means no IDs.
//
// It closes a loop that may grow beyond memory. A crawler whose pages have a
// hundred links each keeps those to come in the inlet:
//
//	fetch := stage.FlatMap("fetch", linksOf) // func(context.Context, URL, func(URL) error) error
//	p, err := pipeline.New("crawler",
//		fetch.To(frontier.Publisher("frontier", URL.String)),
//		pipeline.Feed("frontier", fetch, frontier.Feed))
//
// A message of the loop is acknowledged when all commands that it led to are in
// the server. So memory holds [Options.MaxInFlight] messages and what they
// emit, the disk holds the others, and a process that is killed goes on where
// it was. With [Options.UntilEmpty] the source is exhausted when the loop has
// come to its end.
//
// The stage publishes many commands at once, and waits until the server has
// answered for all of them, up to ten seconds. One worker does that, so that
// commands are published in the order in which they arrive; stage.Workers may
// say otherwise. A message that is refused fails its command, with the error of
// Publish: then the message of the inlet that it came of, if there is one, is
// delivered again after a pause, as Options.Retry says. Stage.Retry has the
// stage itself try again before.
//
// A stream that is full refuses the messages of a loop as well, and a message
// that fails is delivered again while others end and free their places. If no
// message can end without adding others, all become dead letters in the end.
// Let [Options.MaxMessages] and MaxBytes be 0 for an inlet that closes a loop,
// or hold all of it.
func (i *Inlet[C]) Publisher(name string, id func(cmd C) string, opts ...stage.Option) *stage.Flow[C, C] {
	of := func(send func(context.Context, C) behaviour.Outcome) (behaviour.Behaviour[C], error) {
		if i == nil {
			return nil, errors.New("the inlet is nil")
		}
		return &publisher[C]{i, id, send}, nil
	}
	return stage.FlowOf(name, of, append([]stage.Option{stage.Defaults(stage.Workers(1, 1)), stage.Blocking()}, opts...)...)
}

// publisher is the behaviour of a stage that publishes.
type publisher[C any] struct {
	to   *Inlet[C]
	id   func(cmd C) string // nil means no IDs
	send func(context.Context, C) behaviour.Outcome
}

// HandleCommand publishes a command.
func (p *publisher[C]) HandleCommand(ctx context.Context, cmd C) behaviour.Outcome {
	return p.publish(ctx, []C{cmd}, []context.Context{ctx})[0]
}

// HandleBatch publishes commands.
func (p *publisher[C]) HandleBatch(ctx context.Context, cmds []C) []behaviour.Outcome {
	return p.publish(ctx, cmds, command.BatchOf(ctx))
}

// publish publishes commands; their contexts may be nil. Their IDs are known
// before, so that a function that panics has published nothing.
func (p *publisher[C]) publish(ctx context.Context, cmds []C, of []context.Context) []behaviour.Outcome {
	ids := make([]string, len(cmds))
	if p.id != nil {
		for k, cmd := range cmds {
			ids[k] = p.id(cmd)
		}
	}
	errs := p.to.publishAll(ctx, ids, cmds, of, false)
	all := make([]behaviour.Outcome, len(cmds))
	for k, cmd := range cmds {
		if errs != nil && errs[k] != nil {
			all[k] = behaviour.Error(errs[k])
		} else {
			all[k] = p.send(ctx, cmd)
		}
	}
	return all
}
