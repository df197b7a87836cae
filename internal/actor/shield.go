package actor

import (
	"errors"
	"fmt"

	proto "github.com/asynkron/protoactor-go/actor"

	"github.com/golda-dev/golda/internal/plain"
)

// shield lets an actor end although it panics, or ends its goroutine, while it
// handles its stop. Without the shield, protoactor would neither stop the
// actor's children nor notify its parent, which would then wait for ever.
type shield struct{ Actor }

// shieldedSupervisor is a shield of an actor that handles the failures of its
// children.
type shieldedSupervisor struct{ shield }

// HandleFailure passes a failure on.
func (k shieldedSupervisor) HandleFailure(s *System, by Supervisor, child *PID, rs *RestartStatistics, reason, message any) {
	k.Actor.(proto.SupervisorStrategy).HandleFailure(s, by, child, rs, reason, message)
}

func shielded(a Actor) Actor {
	if _, ok := a.(proto.SupervisorStrategy); ok {
		return shieldedSupervisor{shield{a}}
	}
	return shield{a}
}

// Receive passes a message on. The last two messages are handled in a goroutine
// of their own; a crash there becomes a failure that the parent is notified of.
func (s shield) Receive(ctx Context) {
	switch ctx.Message().(type) {
	case *Stopping, *Stopped:
		if err := s.last(ctx); err != nil {
			Fail(ctx, err)
		}
	default:
		s.Actor.Receive(ctx)
	}
}

var errExited = errors.New("runtime.Goexit while the actor stopped")

func (s shield) last(ctx Context) error {
	over := make(chan error, 1)
	go func() {
		err := errExited
		defer func() {
			switch v := recover().(type) {
			case nil:
			case error:
				err = fmt.Errorf("panic while the actor stopped: %w", v)
			default:
				err = fmt.Errorf("panic while the actor stopped: %s", plain.Text(v))
			}
			over <- err
		}()
		s.Actor.Receive(ctx)
		err = nil
	}()
	return <-over
}
