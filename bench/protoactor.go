package main

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/router"
)

// protoactor-go in its plain form: an actor for each stage, or a round-robin
// pool of actors where a stage has several workers; each sends its result to
// the next. Golda is built on it.
//
// It guarantees: order between two actors. Mailboxes are unbounded unless asked
// for, and no sender ever waits. An actor that panics is restarted ten times in
// ten seconds and then stopped. The message that caused the panic is lost, and
// after the stop all others are. A requester notices only by its own time
// limit.
var protoactor = implementation{
	name: "protoactor",
	what: "protoactor-go, an actor for each worker",
	promise: promise{
		bound: "unbounded: mailboxes grow",
		order: oneWorker,
		crash: "the command is lost; after ten crashes in ten seconds the stage is",
	},
	pointers: protoactorLine[*parcel],
	blocks:   protoactorLine[block],
	boxes:    protoactorLine[*block],
}

func protoactorLine[C any](s shape[C]) (line[C], error) {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler) // W6 crashes on purpose
	}))
	root := system.Root
	var next []*actor.PID // the actors of the next step
	for i, st := range slices.Backward(s.steps) {
		var own []*actor.PID
		for range st.width() {
			own = append(own, root.Spawn(protoactorProps(s, i, next)))
		}
		next = own
	}
	entry := next[0]
	return line[C]{
		submit: func(c C) error {
			root.Send(entry, c)
			return nil
		},
		call: func(_ context.Context, c C) error { return root.RequestFuture(entry, c, time.Minute).Wait() },
		stop: func() {
			_ = root.StopFuture(entry).Wait()
			system.Shutdown()
		},
	}, nil
}

// protoactorProps returns the props of a stage's actors.
func protoactorProps[C any](s shape[C], i int, next []*actor.PID) *actor.Props {
	receive := protoactorReceive(s, i, next)
	if workers := s.steps[i].workers; workers > 1 {
		return router.NewRoundRobinPool(workers, actor.WithFunc(receive))
	}
	return actor.PropsFromFunc(receive)
}

func protoactorReceive[C any](s shape[C], i int, next []*actor.PID) actor.ReceiveFunc {
	do := s.steps[i].do
	return func(ctx actor.Context) {
		c, ok := ctx.Message().(C)
		if !ok {
			return // the actor was started, or is stopping
		}
		do(c)
		switch {
		case !s.last(i):
			protoactorForward(ctx, next[s.lane(i+1, c)])
		case s.answers && ctx.Sender() != nil:
			ctx.Respond(c)
		default:
			s.end(c)
		}
	}
}

// protoactorForward keeps the sender, so that the last stage can answer it.
func protoactorForward(ctx actor.Context, to *actor.PID) {
	if ctx.Sender() == nil {
		ctx.Send(to, ctx.Message())
		return
	}
	ctx.Forward(to)
}
