package stagetest

import (
	"context"
	"errors"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
)

// nodeSuspender is a nodeBehaviour whose handler suspends: before its fault, while it works, and while it waits for the
// stages that it calls.
type nodeSuspender struct{ nodeBehaviour }

// HandleSuspending waits, works, calls, and forwards the command.
func (s *nodeSuspender) HandleSuspending(c behaviour.Suspender, cmd Command) behaviour.Outcome {
	leave := s.enter()
	defer leave()
	if err := s.site.suspend(c, cmd); err != nil {
		return behaviour.Error(err)
	}
	if err := s.site.injector.inject(c, cmd); err != nil {
		return behaviour.Error(err)
	}
	if err := s.site.call(c, cmd); err != nil {
		return behaviour.Error(err)
	}
	return s.site.handle(c, cmd)
}

// suspend suspends in one of four ways, or not at all.
func (s *site) suspend(c behaviour.Suspender, cmd Command) error {
	switch mix(cmd.key()+1) % 5 {
	case 0:
		return coroutine.Yield(c)
	case 1:
		return coroutine.Sleep(c, time.Duration(cmd.key()%200)*time.Microsecond)
	case 2:
		_, err := coroutine.Await(c, func(context.Context) (int, error) { return 0, nil })
		return err
	case 3:
		return c.Suspend(func(wake func()) { wake(); wake() })
	default:
		return nil
	}
}

// work takes as long as the node says.
func (s *site) work(ctx context.Context) {
	if s.Work == 0 {
		return
	}
	if c, ok := ctx.(behaviour.Suspender); ok {
		_ = coroutine.Sleep(c, s.Work) // the work counts as done even if it was stopped
		return
	}
	time.Sleep(s.Work)
}

// call submits a command of its own to a later node and waits for the answer. No path leads back from that node, and
// the command goes no further, so that handlers cannot wait for each other in a circle. An error means that the caller
// was stopped; the result of the call itself does not matter.
func (s *site) call(c behaviour.Suspender, cmd Command) error {
	if !s.Calls || mix(cmd.key()+2)%4 > 0 {
		return nil
	}
	later := s.run.plan.Graph.callable(s.index)
	if len(later) == 0 {
		return nil
	}
	to := s.run.sites[later[mix(cmd.key()+3)%uint64(len(later))]].stage
	called := Command{ID: s.run.ids.Add(1)}
	ticket, err := to.Ask(c, called)
	switch {
	case errors.Is(err, coroutine.ErrStopped):
		return err
	case err != nil:
		if !refusal(err) {
			s.run.breachf(OneEnd, "a call of stage %s by %s was refused for an unknown reason: %v", to.Name(), name(s.index), err)
		}
		return nil
	}
	s.run.noteCall(&pendingAnswer{called.ID, ticket, c})
	if _, err := ticket.Wait(c); errors.Is(err, coroutine.ErrStopped) {
		return err
	}
	return nil
}

// noteCall records a command that a handler submitted.
func (r *run) noteCall(a *pendingAnswer) {
	r.accepted.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, a)
}
