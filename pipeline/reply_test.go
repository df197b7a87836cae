package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/window"
)

// dock is a stage "ship" whose handlers wait until they are let go, and then fail.
type dock struct {
	*stage.Stage[int]

	open    chan struct{}
	shipped atomic.Int64
}

var errSunk = errors.New("sunk")

func newDock() *dock {
	d := &dock{open: make(chan struct{})}
	d.Stage = stage.Func("ship", func(_ context.Context, n int) behaviour.Outcome {
		<-d.open
		d.shipped.Add(1)
		if n < 0 {
			return behaviour.Error(errSunk)
		}
		return behaviour.OK("shipped")
	}, stage.Workers(2, 2))
	return d
}

// receipt forwards a command and answers its caller.
func (d *dock) receipt(n int) behaviour.Outcome {
	return behaviour.Forward(d.Stage, n).WithReply("received")
}

func (d *dock) HandleCommand(_ context.Context, n int) behaviour.Outcome { return d.receipt(n) }

func (d *dock) HandleBatch(_ context.Context, ns []int) (all []behaviour.Outcome) {
	for _, n := range ns {
		all = append(all, d.receipt(n))
	}
	return all
}

// single hides the HandleBatch of a dock.
type single struct{ behaviour.Behaviour[int] }

// Whatever the form of the handler, the caller has its answer while the command goes on, which counts as submitted: it is
// accepted and ends on its own, and if it fails it leaves a letter and a line in the log.
func TestACallerIsAnsweredWhileTheCommandGoesOn(t *testing.T) {
	for name, take := range map[string]func(*dock) (*stage.Stage[int], []pipeline.Part){
		"a function": func(d *dock) (*stage.Stage[int], []pipeline.Part) { return stage.New("take", single{d}), nil },
		"a batch":    func(d *dock) (*stage.Stage[int], []pipeline.Part) { return stage.New("take", d), nil },
		"a coroutine": func(d *dock) (*stage.Stage[int], []pipeline.Part) {
			return stage.Coroutine("take", func(c coroutine.Context, n int) behaviour.Outcome {
				if err := coroutine.Yield(c); err != nil {
					return behaviour.Error(err)
				}
				return d.receipt(n)
			}), nil
		},
		"a keyed stage": func(d *dock) (*stage.Stage[int], []pipeline.Part) {
			return stage.Keyed("take", func(n int) int { return n }, func(int) single { return single{d} }), nil
		},
		"an ordered stage": func(d *dock) (*stage.Stage[int], []pipeline.Part) {
			return stage.New("take", single{d}, stage.Ordered()), nil
		},
		"a time limit": func(d *dock) (*stage.Stage[int], []pipeline.Part) {
			return stage.New("take", single{d}, stage.Timeout(time.Hour)), nil
		},
		"a shared pool": func(d *dock) (*stage.Stage[int], []pipeline.Part) {
			s := stage.New("take", single{d})
			return s, []pipeline.Part{pipeline.Group("g", 1, 2, s)}
		},
		"middleware": func(d *dock) (*stage.Stage[int], []pipeline.Part) {
			plain := func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(d.Stage, n) }
			return stage.Func("take", plain, stage.Middleware(
				func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
					return next(ctx, cmd).WithReply("received")
				})), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := &lineCount{}
			d := newDock()
			take, more := take(d)
			p := run(t, append([]pipeline.Part{take, d.Stage, pipeline.Logger(slog.New(log))}, more...)...)
			for _, n := range []int{1, -2} {
				got, err := stage.Call[string](soon(t), take, n)
				require.NoError(t, err)
				require.Equal(t, "received", got)
			}
			between := p.Snapshot()
			require.True(t, between.Balanced(), between.Law())
			require.EqualValues(t, 4, between.Accepted, "two calls, and what goes on of them")
			require.EqualValues(t, 2, between.Replied)
			require.EqualValues(t, 2, between.InFlight)
			require.Zero(t, d.shipped.Load())
			close(d.open)
			require.NoError(t, p.Drain(soon(t)))
			require.EqualValues(t, 2, d.shipped.Load())
			end := p.Snapshot()
			require.EqualValues(t, 3, end.Replied)
			require.EqualValues(t, 1, end.Failed)
			left := p.Failures().List(letters.Filter{})
			require.Len(t, left, 1)
			require.Equal(t, -2, left[0].Command)
			require.Equal(t, "ship", left[0].Stage)
			require.ErrorIs(t, left[0].Err, errSunk)
			require.EqualValues(t, 1, log.lines.Load())
		})
	}
}

// Without the reply the caller waits for the end, hears of the error, and no letter is left.
func TestACallerThatIsNotAnsweredEarlyHearsOfTheEnd(t *testing.T) {
	d := newDock()
	close(d.open)
	take := stage.Func("take", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(d.Stage, n) })
	p := run(t, take, d.Stage)
	_, err := stage.Call[string](soon(t), take, -1)
	require.ErrorIs(t, err, errSunk)
	require.Zero(t, p.Failures().Len())
}

func TestAStopWaitsForACommandWhoseCallerHasBeenAnswered(t *testing.T) {
	d := newDock()
	take := stage.New("take", single{d})
	p := start(t, take, d.Stage)
	_, err := stage.Call[string](soon(t), take, 1)
	require.NoError(t, err)
	stopped := make(chan error)
	go func() { stopped <- p.Stop(soon(t)) }()
	eventually(t, "the entry is closed", func() bool { return errors.Is(take.Submit(soon(t), 2), stage.ErrClosed) })
	select {
	case err := <-stopped:
		t.Fatal("the stop has not waited", err)
	default:
	}
	close(d.open)
	require.NoError(t, <-stopped)
	require.Positive(t, d.shipped.Load())
	atRest(t, p)
}

func TestAHardStopLeavesALetterOfACommandWhoseCallerHasBeenAnswered(t *testing.T) {
	ship := stage.Func("ship", func(ctx context.Context, _ int) behaviour.Outcome {
		<-ctx.Done()
		return behaviour.Error(context.Cause(ctx))
	}, stage.Workers(1, 1))
	take := stage.Func("take", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(ship, n).WithReply(n) })
	p := start(t, take, ship)
	for n := range 3 {
		_, err := stage.Call[int](soon(t), take, n)
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.Error(t, p.Stop(ctx))
	atRest(t, p)
	require.Equal(t, 3, p.DeadLetters().Len()+p.Failures().Len())
	require.EqualValues(t, 3, p.Snapshot().Replied)
}

// The command that goes on has the values of the caller's context, and a deadline that commands take along; it does not end
// with the context.
func TestACommandThatGoesOnHasTheValuesOfItsCallersContextAndNotItsEnd(t *testing.T) {
	type userKey struct{}
	type sight struct {
		err   error
		user  any
		until time.Time
	}
	gone, seen := make(chan struct{}), make(chan sight)
	ship := stage.Func("ship", func(ctx context.Context, _ int) behaviour.Outcome {
		<-gone
		until, _ := ctx.Deadline()
		seen <- sight{ctx.Err(), ctx.Value(userKey{}), until}
		return behaviour.OK(nil)
	})
	take := stage.Func("take", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(ship, n).WithReply(n) })
	run(t, take, ship)

	ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), userKey{}, "ann"))
	_, err := stage.Call[int](ctx, take, 1)
	require.NoError(t, err)
	cancel(errNo)
	gone <- struct{}{}
	require.Equal(t, sight{user: "ann"}, <-seen)

	at := time.Now().Add(time.Hour)
	ctx, stop := stage.WithDeadline(context.WithValue(context.Background(), userKey{}, "bob"), at)
	_, err = stage.Call[int](ctx, take, 1)
	require.NoError(t, err)
	stop()
	gone <- struct{}{}
	require.Equal(t, sight{user: "bob", until: at}, <-seen, "it keeps the deadline")
}

// A command that still waits when the deadline of its caller has passed expires, although its caller was answered.
func TestACommandThatGoesOnExpiresAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDock()
		take := stage.New("take", single{d})
		p := startAlone(t, take, d.Stage)
		for range 2 { // as many as there are workers
			_, err := stage.Call[string](t.Context(), take, 1)
			require.NoError(t, err)
		}
		synctest.Wait()
		ctx, cancel := stage.WithDeadline(t.Context(), time.Now().Add(time.Second))
		defer cancel()
		_, err := stage.Call[string](ctx, take, 2)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		left := p.DeadLetters().List(letters.Filter{})
		require.Len(t, left, 1)
		require.Equal(t, reason.Expired, left[0].Reason)
		require.Equal(t, "ship", left[0].Stage)
		require.Equal(t, 2, left[0].Command)
		close(d.open)
		require.NoError(t, p.Stop(t.Context()))
		atRest(t, p)
	})
}

// A try that crashes answers no caller and sends nothing.
func TestOnlyTheTryThatSucceedsAnswersAndGoesOn(t *testing.T) {
	d := newDock()
	close(d.open)
	take := stage.Func("take", func(ctx context.Context, n int) behaviour.Outcome {
		if err := behaviour.Emit(ctx, d.Stage, n); err != nil {
			return behaviour.Error(err)
		}
		switch behaviour.Attempt(ctx) {
		case 1:
			panic("no")
		case 2:
			return behaviour.Error(errNo)
		}
		return d.receipt(n)
	}, stage.Retry(stage.RetryPolicy{Attempts: 3}))
	p := run(t, take, d.Stage)
	got, err := stage.Call[string](soon(t), take, 1)
	require.NoError(t, err)
	require.Equal(t, "received", got)
	require.NoError(t, p.Drain(soon(t)))
	require.EqualValues(t, 2, d.shipped.Load())
	require.EqualValues(t, 3, p.Snapshot().Replied)
}

// The caller waits for no command that the handler has emitted either, and none of their errors reaches it.
func TestTheCommandsThatAHandlerEmitsGoOnWithoutTheCaller(t *testing.T) {
	d := newDock()
	take := stage.Func("take", func(ctx context.Context, n int) behaviour.Outcome {
		for range 10 {
			if err := behaviour.Emit(ctx, d.Stage, -n); err != nil {
				return behaviour.Error(err)
			}
		}
		return d.receipt(n)
	})
	p := run(t, take, d.Stage)
	ticket, err := take.Ask(soon(t), 1)
	require.NoError(t, err)
	got, err := ticket.Wait(soon(t))
	require.NoError(t, err)
	require.Equal(t, "received", got)
	require.EqualValues(t, 11, p.Snapshot().InFlight)
	close(d.open)
	require.NoError(t, p.Drain(soon(t)))
	require.Equal(t, 10, p.Failures().Len())
	require.NoError(t, ticket.Err())
}

// Of more commands than a handler holds, the caller waits for those that left while it ran.
func TestACallerWaitsForEmittedCommandsThatLeftBeforeTheReply(t *testing.T) {
	d := newDock()
	take := stage.Func("take", func(ctx context.Context, n int) behaviour.Outcome {
		for range 300 {
			if err := behaviour.Emit(ctx, d.Stage, n); err != nil {
				return behaviour.Error(err)
			}
		}
		return d.receipt(n)
	})
	p := run(t, take, d.Stage)
	ticket, err := take.Ask(soon(t), 1)
	require.NoError(t, err)
	eventually(t, "the handler has returned", func() bool { return stageOf(p.Snapshot(), "take").Counts.OK == 1 })
	require.Nil(t, ticket.Result())
	close(d.open)
	got, err := ticket.Wait(soon(t))
	require.NoError(t, err)
	require.Equal(t, "received", got)
}

// The handler of an emitted command has no caller of its own: the caller of the command that emitted it waits for it no
// longer.
func TestAReplyToAnEmittedCommandEndsItForTheCaller(t *testing.T) {
	d := newDock()
	part := stage.New("part", single{d})
	take := stage.Func("take", func(ctx context.Context, n int) behaviour.Outcome {
		for range 2 {
			if err := behaviour.Emit(ctx, part, n); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK("taken")
	})
	p := run(t, take, part, d.Stage)
	got, err := stage.Call[string](soon(t), take, 1)
	require.NoError(t, err)
	require.Equal(t, "taken", got)
	require.EqualValues(t, 2, p.Snapshot().InFlight)
	close(d.open)
}

// A command that was submitted, or came from a source, has no caller: it is forwarded. So a checkpoint waits for its end.
func TestACommandWithoutACallerIsForwarded(t *testing.T) {
	d := newDock()
	take := stage.New("take", single{d})
	var ended atomic.Bool
	src := source.Ends(func(_ context.Context, submit func(int, func(error)) error) error {
		return submit(1, func(error) { ended.Store(true) })
	})
	p := run(t, take, d.Stage, pipeline.Feed("feed", take, src))
	require.NoError(t, take.Submit(soon(t), 2))
	eventually(t, "both are forwarded", func() bool { return stageOf(p.Snapshot(), "take").Counts.Forwarded == 2 })
	s := p.Snapshot()
	require.EqualValues(t, 2, s.Accepted)
	require.Zero(t, s.Replied)
	require.False(t, ended.Load())
	close(d.open)
	eventually(t, "the source learns of the end", ended.Load)
}

// An actor that requests is a caller, too.
func TestARequestOfAnActorIsAnsweredWhileTheCommandGoesOn(t *testing.T) {
	d := newDock()
	take := stage.New("take", single{d})
	run(t, take, d.Stage)
	got, err := system().Root.RequestFuture(take.PID(), 1, enough).Result()
	require.NoError(t, err)
	require.Equal(t, &stage.Reply{Result: "received"}, got)
	close(d.open)
}

// A handler that calls another stage is a caller, whose own command goes on.
func TestAHandlerThatCallsIsAnsweredWhileTheCommandGoesOn(t *testing.T) {
	d := newDock()
	take := stage.New("take", single{d})
	front := stage.Coroutine("front", func(c coroutine.Context, n int) behaviour.Outcome {
		got, err := stage.Call[string](c, take, n)
		if err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK("front: " + got)
	})
	p := run(t, front, take, d.Stage)
	got, err := stage.Call[string](soon(t), front, -1)
	require.NoError(t, err)
	require.Equal(t, "front: received", got)
	close(d.open)
	require.NoError(t, p.Drain(soon(t)))
	require.Equal(t, 1, p.Failures().Len())
}

// A failure after the reply parks its key, as that of a submitted command does.
func TestAFailureAfterTheReplyParksItsKey(t *testing.T) {
	l := newParkLedger()
	l.fail(booking{"ann", 1}, errNo)
	ledger := l.stage()
	take := stage.Func("take", func(_ context.Context, b booking) behaviour.Outcome {
		return behaviour.Forward(ledger, b).WithReply(b.N)
	}, stage.Workers(1, 1)) // with more, the command of the next call might overtake
	p := run(t, take, ledger)
	for n := range 3 {
		got, err := stage.Call[int](soon(t), take, booking{"ann", n})
		require.NoError(t, err)
		require.Equal(t, n, got)
	}
	eventually(t, "it leaves a letter", func() bool { return p.Failures().Len() == 1 })
	require.Equal(t, []int{0}, l.of("ann"))
	l.repair()
	require.NoError(t, p.Failures().Retry(soon(t), 1))
	eventually(t, "the key goes on", func() bool { return len(l.of("ann")) == 3 })
	require.Equal(t, []int{0, 1, 2}, l.of("ann"))
}

// The result of a window has several callers. The caller of the command that opened it has the result of the reply, and the
// others learn of the end.
func TestTheCallersOfAWindowAreAnsweredWhileItsResultGoesOn(t *testing.T) {
	d := newDock()
	take := stage.Func("take", func(_ context.Context, w window.Window[struct{}, []int]) behaviour.Outcome {
		return d.receipt(len(w.Value))
	})
	all := window.All("all", window.Bounds[int]{Count: 3})
	p := run(t, all.To(take), take, d.Stage)
	var tickets []*stage.Ticket
	for n := range 3 {
		ticket, err := all.Ask(soon(t), n)
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	for i, want := range []any{"received", nil, nil} {
		got, err := tickets[i].Wait(soon(t))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.EqualValues(t, 1, p.Snapshot().InFlight)
	close(d.open)
	require.NoError(t, p.Drain(soon(t)))
	require.EqualValues(t, 1, d.shipped.Load())
}

// A source that waits for one of the commands learns of the end of the whole, and so does the caller of another one: it has
// the result of the reply.
func TestASourceInAWindowIsNotTakenForACaller(t *testing.T) {
	d := newDock()
	take := stage.Func("take", func(_ context.Context, w window.Window[struct{}, []int]) behaviour.Outcome {
		return d.receipt(len(w.Value))
	})
	all := window.All("all", window.Bounds[int]{Count: 2})
	begin := make(chan struct{})
	var ended atomic.Bool
	src := source.Ends(func(_ context.Context, submit func(int, func(error)) error) error {
		<-begin
		return submit(2, func(error) { ended.Store(true) })
	})
	p := run(t, all.To(take), take, d.Stage, pipeline.Feed("feed", all, src))
	ticket, err := all.Ask(soon(t), 1)
	require.NoError(t, err)
	eventually(t, "the window is open", func() bool { return all.Snapshot().Counts.Accepted == 1 })
	close(begin)
	eventually(t, "the result is handled", func() bool { return stageOf(p.Snapshot(), "take").Counts.OK == 1 })
	require.Nil(t, ticket.Result())
	require.False(t, ended.Load())
	close(d.open)
	got, err := ticket.Wait(soon(t))
	require.NoError(t, err)
	require.Equal(t, "received", got)
	eventually(t, "the source learns of the end", ended.Load)
}

func TestAForwardThatFailsAnswersWithItsError(t *testing.T) {
	port := behaviour.NewPort[int]("nowhere")
	foreign := stage.Func("foreign", echo[int])
	take := stage.Func("take", func(_ context.Context, n int) behaviour.Outcome {
		if n == 0 {
			return behaviour.Forward(port, n).WithReply("received")
		}
		return behaviour.Forward(foreign, n).WithReply("received")
	})
	run(t, take)
	_, err := stage.Call[string](soon(t), take, 0)
	require.ErrorIs(t, err, behaviour.ErrUnwired)
	_, err = stage.Call[string](soon(t), take, 1)
	require.ErrorIs(t, err, stage.ErrForeign)
}
