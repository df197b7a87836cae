package supervisor

import (
	"context"

	"github.com/golda-dev/golda/internal/act"
)

// service is the actor of a child that is a function. The function has a goroutine of
// its own; when it returns the actor fails, and when the actor stops the
// function's context ends and the actor waits for it.
type service struct {
	child  *Child
	birth  *birth
	base   context.Context
	ready  func(error)
	cancel context.CancelCauseFunc
	over   chan struct{}
}

// over tells a service's actor that its function has returned.
type over struct{ reason error }

// IgnoreDeadLetterLogging marks a message that may come too late.
func (over) IgnoreDeadLetterLogging() {}

func newService(c *kid, base context.Context, ready func(error)) *service { //nolint:revive // base is kept, not obeyed
	return &service{child: c.child, birth: c.birth, base: base, ready: ready, over: make(chan struct{})}
}

// Receive handles a message to the service's actor.
func (s *service) Receive(ctx act.Context) {
	switch m := ctx.Message().(type) {
	case *act.Started:
		s.start(ctx)
	case over:
		act.Fail(ctx, m.reason)
	case *act.Stopping:
		s.cancel(ErrShutdown)
		<-s.over
	}
}

func (s *service) start(ctx act.Context) {
	var running context.Context
	running, s.cancel = context.WithCancelCause(s.base)
	self, root := ctx.Self(), ctx.ActorSystem().Root
	if s.child.Run != nil {
		s.ready(nil)
	}
	ended := func(err error) {
		if endedWell(err, false) {
			s.ready(nil) // if it has not said so: it was, or it would not have come to its end
		} else {
			s.ready(err)
		}
		if s.birth.said.Load().err != nil {
			return // it could not start, which says it all
		}
		if running.Err() != nil {
			s.birth.parting.Store(&word{s.asTold(err)})
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

// asTold takes what a service returns after its context has ended, but a crash, for
// the end that was asked for.
func (s *service) asTold(err error) error {
	if _, crashed := err.(*CrashError); crashed { //nolint:errorlint // a crash of another's, wrapped, is none of ours
		return err
	}
	return nil
}
