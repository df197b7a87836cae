package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/remote"
	"github.com/golda-dev/golda/stage"
)

// exchange carries calls between pipelines of one program, in memory; commands it carries as a broker does.
type exchange struct {
	*brokerProcess

	calls *callees
}

// callees has what answers the calls of each stage.
type callees struct {
	mu   sync.Mutex
	of   map[string]func(ctx context.Context, cmd any, want reflect.Type) (any, error)
	hook func(ctx context.Context) error // is called for each call, and may fail or panic; nil is none
	ends atomic.Int32                    // how often Answer returns before its time, from now on
}

func (x exchange) Line(name string, of reflect.Type, key func(any) uint64) (remote.Line, error) {
	l, err := x.brokerProcess.Line(name, of, key)
	return &callLine{l, name, x.calls}, err
}

// callLine is a line that takes calls.
type callLine struct {
	remote.Line

	stage string
	*callees
}

var errNoCallee = errors.New("no process runs it")

func (l *callLine) Call(ctx context.Context, cmd any, want reflect.Type) (any, error) {
	l.mu.Lock()
	handle, hook := l.of[l.stage], l.hook
	l.mu.Unlock()
	if hook != nil {
		if err := hook(ctx); err != nil {
			return nil, err
		}
	}
	if handle == nil {
		return nil, errNoCallee
	}
	return handle(ctx, cmd, want)
}

func (l *callLine) Answer(ctx context.Context, handle func(ctx context.Context, cmd any, want reflect.Type) (any, error)) error {
	if l.ends.Add(-1) >= 0 {
		return nil
	}
	l.mu.Lock()
	l.of[l.stage] = handle
	l.mu.Unlock()
	<-ctx.Done()
	l.mu.Lock()
	delete(l.of, l.stage)
	l.mu.Unlock()
	return context.Cause(ctx)
}

// called is a pipeline in two processes: "near" leads to "far", which forwards even numbers to "back".
type called struct {
	calls           *callees
	at              *broker
	near, far, back *stage.Stage[int] // as process "a" has them
	a, b            *pipeline.Pipeline
}

// answered is the command that "far" answers before it forwards it.
const answered = 1000

func newCalled(t *testing.T) *called {
	t.Helper()
	c := &called{calls: &callees{of: map[string]func(context.Context, any, reflect.Type) (any, error){}}, at: newBroker()}
	start := func(process string) *pipeline.Pipeline {
		c.back = stage.Func("back", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(fmt.Sprint(n, " of back")) })
		back := c.back
		port := behaviour.NewPort[int]("back")
		c.far = stage.Func("far", func(ctx context.Context, n int) behaviour.Outcome {
			switch {
			case n < 0:
				<-ctx.Done()
				return behaviour.Error(context.Cause(ctx))
			case n == answered:
				return behaviour.Forward(back, n).WithReply("far has it")
			case n%2 == 0:
				return behaviour.Forward(back, n)
			default:
				return behaviour.OK(fmt.Sprint(n, " of far"))
			}
		}, stage.Out(port))
		far := c.far
		c.near = stage.Func("near", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(far, n) })
		p, err := pipeline.New("called", quiet, c.near, c.far, c.back, pipeline.Wire(port, c.back), pipeline.Entry(c.near, c.far),
			pipeline.Assign("a", "near", "back"), pipeline.Assign("b", "far"), pipeline.RunsHere(exchange{c.at.process(), c.calls}, process))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		t.Cleanup(func() {
			_ = p.Stop(context.Background())
			assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
		})
		return p
	}
	c.b = start("b")
	c.a = start("a")
	return c
}

// hook sets what is called before a call is handled.
func (c *called) hook(f func(context.Context) error) {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	c.calls.hook = f
}

func (c *called) answers(t *testing.T) {
	t.Helper()
	inTime(t, "calls are answered", func() bool {
		c.calls.mu.Lock()
		defer c.calls.mu.Unlock()
		return len(c.calls.of) == 3
	})
}

func TestACallGoesToTheProcessThatRunsItsStage(t *testing.T) {
	t.Parallel()
	c := newCalled(t)
	c.answers(t)
	for _, s := range []*stage.Stage[int]{c.far, c.near} {
		for n, want := range []string{"0 of back", "1 of far", "2 of back"} {
			got, err := stage.Call[string](t.Context(), s, n)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	there := c.b.Snapshot()
	require.EqualValues(t, 6, stageOf(there, "far").Counts.Accepted)
	require.EqualValues(t, 4, stageOf(there, "back").Counts.OK, "it has called the first process")
	require.EqualValues(t, 4, stageOf(c.a.Snapshot(), "back").Counts.OK)
	sent, _ := c.at.of("far")
	require.Zero(t, sent, "a call is not kept")
	require.NoError(t, c.near.Submit(t.Context(), 1))
	inTime(t, "a command without a caller is sent", func() bool { sent, _ := c.at.of("far"); return sent == 1 })
}

func stageOf(s pipeline.Snapshot, name string) stage.Snapshot {
	for _, of := range s.Stages {
		if of.Name == name {
			return of
		}
	}
	return stage.Snapshot{}
}

// The caller in the first process has the answer of the second one, which sends the command to the first as one that was
// submitted: no call of "back" is made.
func TestACallerInAnotherProcessIsAnsweredWhileTheCommandGoesOn(t *testing.T) {
	t.Parallel()
	c := newCalled(t)
	c.answers(t)
	got, err := stage.Call[string](t.Context(), c.near, answered)
	require.NoError(t, err)
	require.Equal(t, "far has it", got)
	inTime(t, "the command is sent, and handled", func() bool {
		sent, _ := c.at.of("back")
		return sent == 1 && stageOf(c.a.Snapshot(), "back").Counts.OK == 1
	})
	require.EqualValues(t, 1, stageOf(c.b.Snapshot(), "far").Counts.OK)
}

func TestACallThatCannotBeMadeFails(t *testing.T) {
	t.Parallel()
	c := newCalled(t)
	c.answers(t)
	c.hook(func(context.Context) error { return errNoCallee })
	_, err := stage.Call[string](t.Context(), c.far, 1)
	require.ErrorIs(t, err, errNoCallee)
	require.EqualError(t, err, `stage "far": call to process "b": no process runs it`)
	c.hook(func(context.Context) error { panic("oh no") })
	_, err = stage.Call[string](t.Context(), c.far, 1)
	require.ErrorContains(t, err, "the carrier panicked: oh no")
	c.hook(nil)
	_, err = stage.Call[string](t.Context(), c.far, 1)
	require.NoError(t, err)
	s := stageOf(c.a.Snapshot(), "far")
	require.EqualValues(t, 2, s.Counts.Errors)
	require.EqualValues(t, 1, s.Counts.OK)
}

func TestACallEndsWithItsCallerAlsoWhereTheStageRuns(t *testing.T) {
	t.Parallel()
	c := newCalled(t)
	c.answers(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		inTime(t, "the handler runs", func() bool { return stageOf(c.b.Snapshot(), "far").Queue.InHand == 1 })
		cancel()
	}()
	_, err := stage.Call[string](ctx, c.far, -1)
	require.ErrorIs(t, err, context.Canceled)
	inTime(t, "the handler has ended", func() bool { return c.b.Snapshot().InFlight == 0 && c.a.Snapshot().InFlight == 0 })
}

// Whatever waits to be sent, calls that are under way end, and commands are sent in order.
func TestACallEndsWhileNothingCanBeSent(t *testing.T) {
	t.Parallel()
	c := newCalled(t)
	c.answers(t)
	gate := make(chan struct{})
	c.hook(func(context.Context) error { <-gate; return nil })
	ended := make(chan error, 1)
	go func() {
		_, err := stage.Call[string](t.Context(), c.far, 1)
		ended <- err
	}()
	inTime(t, "the call is under way", func() bool { return c.far.Snapshot().Queue.Suspended == 1 })
	c.at.setAway(true)
	require.NoError(t, c.far.Submit(t.Context(), 1))
	inTime(t, "a command is being sent", func() bool { return c.far.Snapshot().Queue.InHand == 2 })
	close(gate)
	require.NoError(t, <-ended)
	c.at.setAway(false)
}

func TestAtMost1024CallsOfAStageAreUnderWay(t *testing.T) {
	t.Parallel()
	c := newCalled(t)
	c.answers(t)
	gate := make(chan struct{})
	c.hook(func(context.Context) error { <-gate; return nil })
	var callers sync.WaitGroup
	for range 1100 {
		callers.Go(func() {
			_, err := stage.Call[string](t.Context(), c.far, 1)
			assert.NoError(t, err)
		})
	}
	inTime(t, "the others wait", func() bool {
		s := c.far.Snapshot()
		return s.Queue.Suspended == 1024 && s.Queue.Queued == 1100-1024
	})
	close(gate)
	callers.Wait()
	require.EqualValues(t, 1100, c.far.Snapshot().Counts.OK)
}

// A carrier that does not answer any more is asked to again, as a source is that fails.
func TestACarrierThatStopsAnsweringIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{}, 10)
		x := exchange{newBroker().process(), &callees{of: map[string]func(context.Context, any, reflect.Type) (any, error){}}}
		x.calls.ends.Store(2)
		near := stage.Sink("near", func(context.Context, int) error { return nil })
		far := stage.Sink("far", func(context.Context, int) error { answered <- struct{}{}; return nil })
		p, err := pipeline.New("called", quiet, near, far, pipeline.Assign("a", "near"), pipeline.Assign("b", "far"), pipeline.RunsHere(x, "b"))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		time.Sleep(time.Minute)
		x.calls.mu.Lock()
		handle := x.calls.of["far"]
		x.calls.mu.Unlock()
		require.NotNil(t, handle)
		_, err = handle(t.Context(), 1, nil)
		require.NoError(t, err)
		<-answered
		_, err = handle(t.Context(), "text", nil)
		var wrong *stage.TypeError
		require.ErrorAs(t, err, &wrong)
		require.EqualValues(t, 2, p.Snapshot().Feeds[0].Restarts)
		require.NoError(t, p.Stop(context.Background()))
		_, err = handle(t.Context(), 1, nil)
		require.ErrorIs(t, err, stage.ErrClosed)
	})
}

// A keyed stage that runs in another process is not called, since calls would not keep the order of its keys: neither by a caller outside,
// nor by a handler, nor with a command that is forwarded to it, here or in a third process. What no caller waits for is sent.
func TestAKeyedStageThatRunsElsewhereTakesNoCalls(t *testing.T) {
	t.Parallel()
	calls, at := &callees{of: map[string]func(context.Context, any, reflect.Type) (any, error){}}, newBroker()
	handled := make(chan int, 10)
	type stages struct{ count, through, asks, first *stage.Stage[int] }
	start := func(process string) stages {
		count := stage.Keyed("count", func(n int) int { return n }, func(int) behaviour.Behaviour[int] {
			return behaviour.Func[int](func(_ context.Context, n int) behaviour.Outcome {
				handled <- n
				return behaviour.OK(n)
			})
		})
		through := stage.Func("through", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(count, n) }, stage.Out(count))
		asks := stage.Coroutine("asks", func(c behaviour.Suspender, n int) behaviour.Outcome {
			_, err := stage.Call[int](c, count, n)
			return behaviour.Error(err)
		})
		first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(through, n) })
		p, err := pipeline.New("keys", quiet, count, through, asks, first, pipeline.Entry(count, through, asks, first),
			pipeline.Assign("a", "through", "asks"), pipeline.Assign("b", "count"), pipeline.Assign("c", "first"),
			pipeline.RunsHere(exchange{at.process(), calls}, process))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		t.Cleanup(func() {
			assert.NoError(t, p.Stop(context.Background()))
			assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
		})
		return stages{count, through, asks, first}
	}
	start("b")
	a, c := start("a"), start("c")
	inTime(t, "calls are answered", func() bool {
		calls.mu.Lock()
		defer calls.mu.Unlock()
		return calls.of["through"] != nil
	})
	const why = `stage "count": runs in process "b": it is keyed, and a keyed stage takes no calls from other processes; ` +
		`submit or forward the command, or call a process of package coordination/rpc instead`
	_, err := a.count.Ask(t.Context(), 1)
	require.EqualError(t, err, why)
	require.ErrorIs(t, err, stage.ErrElsewhere)
	_, err = stage.Call[int](t.Context(), a.count, 1)
	require.EqualError(t, err, why)
	require.ErrorIs(t, err, stage.ErrElsewhere)
	require.Zero(t, a.count.Snapshot().Counts.Accepted, "it is refused at once")
	for what, s := range map[string]*stage.Stage[int]{"a handler calls": a.asks, "it is forwarded": a.through, "in a third process": c.first} {
		_, err := stage.Call[int](t.Context(), s, 1)
		require.ErrorContains(t, err, why, what)
		require.ErrorIs(t, err, stage.ErrElsewhere, what)
	}
	sent, _ := at.of("count")
	require.Zero(t, sent)
	require.NoError(t, a.through.Submit(t.Context(), 2))
	require.Equal(t, 2, <-handled)
	require.NoError(t, a.count.Submit(t.Context(), 3))
	require.Equal(t, 3, <-handled)
	calls.mu.Lock()
	defer calls.mu.Unlock()
	require.NotContains(t, calls.of, "count", "it does not answer")
}
