package supervisor

import (
	"context"

	"github.com/golda-dev/golda/internal/actor"
)

// service is the actor of a child that is a function. The function has a
// goroutine of its own. When the function returns, the actor fails; when the
// actor stops, it ends the function's context and waits for the function.
type service struct {
	child       *Child
	incarnation *incarnation
	base        context.Context
	ready       func(error)
	cancel      context.CancelCauseFunc
	over        chan struct{}
}

// over notifies a service's actor that its function has returned.
type over struct{ reason error }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (over) IgnoreDeadLetterLogging() {}

func newService(c *childState, base context.Context, ready func(error)) *service { //nolint:revive // base is kept, not obeyed
	return &service{child: c.child, incarnation: c.incarnation, base: base, ready: ready, over: make(chan struct{})}
}

// Receive handles a message to the service's actor.
func (s *service) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.start(ctx)
	case over:
		actor.Fail(ctx, m.reason)
	case *actor.Stopping:
		if s.cancel == nil {
			return // it was killed before it started: nothing runs
		}
		s.cancel(ErrShutdown)
		<-s.over
	}
}

func (s *service) start(ctx actor.Context) {
	var running context.Context
	running, s.cancel = context.WithCancelCause(s.base)
	self, root := ctx.Self(), ctx.ActorSystem().Root
	if s.child.Run != nil {
		s.ready(nil)
	}
	ended := func(err error) {
		if endedWell(err, false) {
			s.ready(nil) // a function that ended well counts as ready
		} else {
			s.ready(err)
		}
		if s.incarnation.startReport.Load().err != nil {
			return // the start report says why it could not start
		}
		if running.Err() != nil {
			s.incarnation.stopReport.Store(&report{s.afterStop(err)})
			return
		}
		if err == nil {
			err = ErrNormal
		}
		root.Send(self, over{err})
	}
	go func() {
		defer close(s.over)
		ended(caught(s.child.Name, func() error { return s.serve(running) }, ended))
	}()
}

func (s *service) serve(ctx context.Context) error {
	if s.child.Run != nil {
		return s.child.Run(ctx)
	}
	return s.child.Serve(ctx, func() { s.ready(nil) })
}

// afterStop returns the error of a service whose context had ended: a crash is
// kept, anything else counts as the stop that was asked for.
func (s *service) afterStop(err error) error {
	if _, crashed := err.(*CrashError); crashed { //nolint:errorlint // a wrapped crash is another child's
		return err
	}
	return nil
}
