package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
)

// nodeSuspender is a nodeBehaviour whose handler suspends: before its fault,
// while it works, and while it waits for the stages that it calls.
type nodeSuspender struct {
	nodeBehaviour
	rest behaviour.Suspending[command] // the fault, and the handler after it
}

// newSuspender makes a nodeSuspender of a site.
func newSuspender(s *site) *nodeSuspender {
	rest := stagetest.Wrap[command](s.injector, behaviour.Coroutine[command](s.callAndHandle))
	return &nodeSuspender{nodeBehaviour{site: s}, rest.(behaviour.Suspending[command])}
}

// HandleSuspending waits, works, calls, and forwards the command.
func (s *nodeSuspender) HandleSuspending(c behaviour.Suspender, cmd command) behaviour.Outcome {
	leave := s.enter()
	defer leave()
	if err := s.site.suspend(c, cmd); err != nil {
		return behaviour.Error(err)
	}
	return s.rest.HandleSuspending(c, cmd)
}

// callAndHandle calls other stages and processes, and then does what other
// handlers do.
func (s *site) callAndHandle(c behaviour.Suspender, cmd command) behaviour.Outcome {
	if err := s.call(c, cmd); err != nil {
		return behaviour.Error(err)
	}
	if err := s.visit(c, cmd); err != nil {
		return behaviour.Error(err)
	}
	return s.handle(c, cmd)
}

// suspend suspends in one of four ways, or not at all.
func (s *site) suspend(c behaviour.Suspender, cmd command) error {
	switch oracle.Mix(cmd.key()+1) % 5 {
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

// call submits a command of its own to a later node and waits for the answer.
// No path leads back from that node, and the command goes no further, so that
// handlers cannot wait for each other in a circle. An error means that the
// caller was stopped; the result of the call itself does not matter.
func (s *site) call(c behaviour.Suspender, cmd command) error {
	if !s.Calls || oracle.Mix(cmd.key()+2)%4 > 0 {
		return nil
	}
	later := s.run.plan.Graph.callable(s.index)
	if len(later) == 0 {
		return nil
	}
	target := s.run.sites[later[oracle.Mix(cmd.key()+3)%uint64(len(later))]]
	to := target.stage
	called := s.run.newCommand(0)
	target.expect(called)
	ticket, err := to.Ask(c, called)
	if err != nil {
		target.expectNot(called)
	}
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
