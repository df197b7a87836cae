package pipeline_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// stop stops, from outside, the actors of the tests' system whose last name has a prefix, and returns how many there were.
func stop(name string) (n int) {
	for _, id := range actor.Processes(system(), "golda/") {
		if strings.HasPrefix(id[strings.LastIndex(id, "/")+1:], name) {
			actor.Stop(system(), actor.Local(system(), id))
			n++
		}
	}
	return n
}

// forEachPool checks the pools that are not those of the stages given to New. The prefix is that of the supervisor's name.
func forEachPool(t *testing.T, check func(t *testing.T, prefix string, s *stage.Stage[int], p func(...pipeline.Part) *pipeline.Pipeline)) {
	t.Helper()
	t.Run("a group's", func(t *testing.T) {
		s := stage.Func("s", echo[int])
		check(t, "g$", s, func(more ...pipeline.Part) *pipeline.Pipeline {
			return start(t, append(more, pipeline.Group("g", 1, 2, s))...)
		})
	})
	t.Run("that of a stage that was added", func(t *testing.T) {
		s := stage.Func("s", echo[int])
		check(t, "s$", s, func(more ...pipeline.Part) *pipeline.Pipeline {
			p := start(t, append(more, stage.Func("other", echo[int]))...)
			require.NoError(t, p.Add(t.Context(), s))
			return p
		})
	})
}

func TestAPoolWhoseSupervisorIsKilledIsRestartedAsIntensityAllows(t *testing.T) {
	forEachPool(t, func(t *testing.T, prefix string, s *stage.Stage[int], begin func(...pipeline.Part) *pipeline.Pipeline) {
		p := begin(pipeline.Intensity(3, time.Minute))
		for i := range 3 {
			eventually(t, "there is one", func() bool { return stop(prefix) > 0 }) // beside it there may be an older one that ends
			ctx, cancel := context.WithTimeout(t.Context(), enough)
			_, err := stage.Call[int](ctx, s, i)
			cancel()
			require.NoError(t, err)
		}
		require.NoError(t, p.Stop(soon(t)))
		atRest(t, p)
	})
}

func TestAPoolWhoseSupervisorIsKilledEndsThePipelineWithoutAnIntensity(t *testing.T) {
	forEachPool(t, func(t *testing.T, prefix string, _ *stage.Stage[int], begin func(...pipeline.Part) *pipeline.Pipeline) {
		p := begin()
		require.Equal(t, 1, stop(prefix))
		select {
		case <-p.Done():
		case <-time.After(enough):
			require.Fail(t, "the pipeline does not end")
		}
		require.ErrorIs(t, p.Err(), supervisor.ErrKilled)
		atRest(t, p)
	})
}

// bolted is an instance that counts its calls, and whose handler waits.
type bolted struct {
	gate           chan struct{}
	begun, stopped *atomic.Int64
}

func (g bolted) HandleCommand(context.Context, int) behaviour.Outcome {
	g.begun.Add(1)
	<-g.gate
	return behaviour.OK(nil)
}

func (g bolted) Stop() { g.stopped.Add(1) }

func TestAnInstanceThatIsReturnedAfterItsSupervisorWasKilledIsStopped(t *testing.T) {
	var made atomic.Int64
	g := bolted{make(chan struct{}), new(atomic.Int64), new(atomic.Int64)}
	s := stage.Each("s", func() behaviour.Behaviour[int] { made.Add(1); return g })
	p := start(t, pipeline.Group("g", 1, 1, s))
	require.NoError(t, s.Submit(t.Context(), 1))
	eventually(t, "it is at work", func() bool { return g.begun.Load() == 1 })
	require.Equal(t, 1, stop("s$"))
	eventually(t, "the pipeline gives up", func() bool { return p.Err() != nil })
	close(g.gate)
	<-p.Done()
	eventually(t, "all are stopped", func() bool { return g.stopped.Load() == made.Load() })
}

// sole is a behaviour that all workers share, and that checks whether it is started.
type sole struct {
	alive          atomic.Bool
	starts, misuse atomic.Int64
}

func (s *sole) Start(context.Context) error { s.starts.Add(1); s.alive.Store(true); return nil }
func (s *sole) Stop()                       { s.alive.Store(false) }
func (s *sole) HandleCommand(context.Context, int) behaviour.Outcome {
	if !s.alive.Load() {
		s.misuse.Add(1)
	}
	return behaviour.OK(nil)
}

// A shared worker does not end with the supervisor of the stage's own pool.
func TestABehaviourThatAGroupSharesIsNotStoppedWhileItIsUsed(t *testing.T) {
	b := &sole{}
	s := stage.New("s", b)
	p := start(t, pipeline.Group("g", 2, 2, s), pipeline.Intensity(1000, time.Second))
	for range 50 {
		stop("s$")
		for range 20 {
			_, err := stage.Call[any](t.Context(), s, 1)
			require.NoError(t, err)
		}
	}
	require.NoError(t, p.Stop(soon(t)))
	require.Zero(t, b.misuse.Load())
	require.EqualValues(t, 1, b.starts.Load())
	require.False(t, b.alive.Load(), "it is stopped at the end")
}

// laggard is sole with a slow second start.
type laggard struct {
	sole
	begins   chan struct{}
	complete chan struct{}
}

func (s *laggard) Start(ctx context.Context) error {
	if s.starts.Load() == 1 {
		close(s.begins)
		<-s.complete
	}
	return s.sole.Start(ctx)
}

// A shared worker does not check whether the supervisor of the stage's own pool was restarted.
func TestWorkersThatComeBeforeTheSupervisorIsRestartedFindTheBehaviourStarted(t *testing.T) {
	b := &laggard{begins: make(chan struct{}), complete: make(chan struct{})}
	s, other := stage.New("s", b), stage.Func("other", echo[int])
	p := start(t, s, other, pipeline.Supervise(supervisor.OneForOne), pipeline.Intensity(10, time.Second))
	require.Equal(t, 1, stop("s$"))
	<-b.begins
	require.NoError(t, p.SetPolicy(shared{controller.SharedFIFO, 2, nil}))
	ticket, err := s.Ask(t.Context(), 1)
	require.NoError(t, err)
	_, err = stage.Call[int](t.Context(), other, 1)
	require.NoError(t, err, "the others continue")
	close(b.complete)
	_, err = ticket.Wait(soon(t))
	require.NoError(t, err)
	require.Zero(t, b.misuse.Load())
	require.EqualValues(t, 2, b.starts.Load(), "each was started once")
	require.NoError(t, p.Stop(soon(t)))
	require.False(t, b.alive.Load())
}

// busy is sole with a handler that waits, and checks whether it was stopped meanwhile.
type busy struct {
	sole
	gate   chan struct{}
	inside atomic.Int64
}

func (b *busy) Stop() {
	b.misuse.Add(b.inside.Load())
	b.sole.Stop()
}

func (b *busy) HandleCommand(ctx context.Context, n int) behaviour.Outcome {
	b.inside.Add(1)
	defer b.inside.Add(-1)
	<-b.gate
	return b.sole.HandleCommand(ctx, n)
}

// A stage that was returned to its own workers may still have a shared worker.
func TestABehaviourIsNotStoppedWhileASharedWorkerUsesIt(t *testing.T) {
	b := &busy{gate: make(chan struct{})}
	s := stage.New("s", b)
	p := start(t, s, pipeline.Control(shared{controller.SharedFIFO, 2, nil}), pipeline.Supervise(supervisor.OneForOne), pipeline.Intensity(10, time.Second))
	ticket, err := s.Ask(t.Context(), 1)
	require.NoError(t, err)
	eventually(t, "it is at work", func() bool { return b.inside.Load() == 1 })
	require.NoError(t, p.SetPolicy(policy.Fixed{}))
	require.Equal(t, 1, stop("s$"))
	second, err := s.Ask(t.Context(), 2)
	require.NoError(t, err)
	eventually(t, "a worker of the stage's own is at work, too", func() bool { return b.inside.Load() == 2 })
	close(b.gate)
	for _, t2 := range []*stage.Ticket{ticket, second} {
		_, err = t2.Wait(soon(t))
		require.NoError(t, err)
	}
	require.NoError(t, p.Stop(soon(t)))
	require.Zero(t, b.misuse.Load())
	require.False(t, b.alive.Load())
}

// No supervisor is above the two trees, so the pipeline ends with either.
func TestAPipelineWhoseSupervisionTreeIsKilledGivesUp(t *testing.T) {
	for _, name := range []string{"test$", "(pools)"} {
		t.Run(name, func(t *testing.T) {
			s := stage.Func("s", echo[int])
			p := start(t, s, pipeline.Intensity(1000, time.Second))
			_, err := stage.Call[int](t.Context(), s, 1)
			require.NoError(t, err)
			require.Equal(t, 1, stop(name))
			select {
			case <-p.Done():
			case <-time.After(enough):
				require.Fail(t, "the pipeline does not end")
			}
			require.ErrorIs(t, p.Err(), supervisor.ErrKilled)
			require.ErrorIs(t, s.Submit(t.Context(), 1), stage.ErrClosed)
			atRest(t, p)
		})
	}
}

func TestTheTreeShowsTheStagesThatWereAddedAndTheSharedPools(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := stage.Func("s", echo[int])
		p := bubble(t, pipeline.Group("g", 1, 1, s))
		require.NoError(t, p.Add(t.Context(), stage.Func("more", echo[int])))
		synctest.Wait()
		require.Regexp(t, `(?s)── s: running for 0s.*── \(controllers\): running.*── \(pools\): running for 0s.*── g-1: running.*── more-2: running`, p.Tree().String())
		require.NoError(t, p.Stop(t.Context()))
		require.Regexp(t, `(?s)\(pools\): down.*── more-2: down`, p.Tree().String())
	})
}

// The worker of a pool that is no longer needed is in a handler for longer than the grace.
func TestAPoolThatIsStoppedFinishesWhatItHoldsAndHoldsNoOtherUp(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		gate := make(chan struct{})
		s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
			if n == 0 {
				<-gate
			}
			return behaviour.OK(n)
		})
		other := stage.Func("other", echo[int])
		law := shared{controller.SharedFIFO, 2, nil}
		p := bubble(t, s, other, pipeline.Control(law))
		ticket, err := s.Ask(t.Context(), 0)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, p.SetPolicy(policy.Fixed{}))
		time.Sleep(time.Minute)
		require.NoError(t, p.SetPolicy(law))
		require.NoError(t, p.Add(t.Context(), stage.Func("more", echo[int])))
		_, err = stage.Call[int](t.Context(), other, 1)
		require.NoError(t, err)
		close(gate)
		_, err = ticket.Wait(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, p.Snapshot().Pools, 1)
		require.NoError(t, p.Stop(t.Context()))
		require.NoError(t, p.Err())
	})
}
