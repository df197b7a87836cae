package nats_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
)

// errand says what stage "work" does, and product is its result.
type (
	errand struct {
		Do string
		N  int
	}
	product struct{ N int }
)

var errBroken = errors.New("broken")

// shortage is an error of a type that nodes know.
type shortage struct{ Missing int }

func (e *shortage) Error() string { return fmt.Sprint(e.Missing, " are missing") }

func init() {
	transport.RegisterError("nats_test.errBroken", errBroken)
	transport.RegisterErrorType[*shortage]("nats_test.shortage")
}

// workshop is a pipeline in one process or two: stage "front", and "through", which forwards, lead to "work", which forwards to "finish" or emits to "scrap".
type workshop struct {
	front   *stage.Stage[errand]
	through *stage.Stage[errand]
	work    *stage.Stage[errand]
	all     []*pipeline.Pipeline // the one of work is the last
	ended   chan error           // of handlers that waited: why
	due     chan time.Time       // the deadlines of their contexts
	inside  atomic.Int32
	open    chan none
}

// parts makes the stages, as each process has them.
func (w *workshop) parts(o ...stage.Option) (front, through, work *stage.Stage[errand], parts []pipeline.Part) {
	finish := stage.Func("finish", func(_ context.Context, p product) behaviour.Outcome { return behaviour.OK(product{p.N + 1}) })
	scrap := stage.Func("scrap", func(_ context.Context, _ int) behaviour.Outcome { return behaviour.Error(errBroken) })
	out, waste := behaviour.NewPort[product]("out"), behaviour.NewPort[int]("waste")
	work = stage.Coroutine("work", func(c coroutine.Context, e errand) behaviour.Outcome {
		switch e.Do {
		case "double":
			return behaviour.OK(product{2 * e.N})
		case "nothing":
			return behaviour.OK(nil)
		case "text":
			return behaviour.OK("text")
		case "fail":
			return behaviour.Error(fmt.Errorf("errand %d: %w", e.N, errBroken))
		case "lack":
			return behaviour.Error(fmt.Errorf("errand: %w", &shortage{e.N}))
		case "crash":
			panic("oh no")
		case "finish":
			return behaviour.Forward(finish, product{e.N})
		case "scrap":
			if err := behaviour.Emit(c, waste, e.N); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(product{e.N})
		case "wait":
			d, _ := c.Deadline()
			w.due <- d
			err := coroutine.Sleep(c, time.Hour)
			w.ended <- context.Cause(c)
			return behaviour.Error(err)
		case "gate":
			w.inside.Add(1)
			if _, err := coroutine.Await(c, func(context.Context) (none, error) { <-w.open; return none{}, nil }); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(product{e.N})
		default:
			return behaviour.Error(errors.New("what?"))
		}
	}, append([]stage.Option{stage.Out(out, waste)}, o...)...)
	front = stage.Coroutine("front", func(c coroutine.Context, e errand) behaviour.Outcome {
		p, err := stage.Call[product](c, work, e)
		if err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(p)
	}, stage.Workers(1, 1))
	through = stage.Func("through", func(_ context.Context, e errand) behaviour.Outcome { return behaviour.Forward(work, e) })
	return front, through, work, []pipeline.Part{
		front, through, work, finish, scrap, pipeline.Wire(out, finish), pipeline.Wire(waste, scrap), pipeline.Entry(front, through, work), quiet,
		pipeline.Assign("front", "front", "through", "finish"), pipeline.Assign("work", "work", "scrap"),
	}
}

// start starts the pipeline of a process. The place is a part, or nil.
func (w *workshop) start(t *testing.T, place pipeline.Part, o ...stage.Option) (front, through, work *stage.Stage[errand]) {
	t.Helper()
	front, through, work, parts := w.parts(o...)
	if place != nil {
		parts = append(parts, place)
	}
	p, err := pipeline.New("workshop", parts...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		_ = p.Stop(context.Background()) // a hard stop has an error, again
		assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
	})
	w.all = append(w.all, p)
	return front, through, work
}

func newWorkshop() *workshop {
	return &workshop{ended: make(chan error, 100), due: make(chan time.Time, 100), open: make(chan none)}
}

// inOne has all stages in one process, and inTwo has "work" in another.
func inOne(t *testing.T, o ...stage.Option) *workshop {
	w := newWorkshop()
	w.front, w.through, w.work = w.start(t, nil, o...)
	return w
}

func inTwo(t *testing.T, o ...stage.Option) *workshop {
	w := newWorkshop()
	conn := embed(t, t.TempDir(), nats.Store{})
	w.front, w.through, w.work = w.start(t, pipeline.RunsHere(nats.NewCarrier(conn, "workshop", nats.Options[any]{}), "front"), o...)
	w.start(t, pipeline.RunsHere(nats.NewCarrier(conn, "workshop", nats.Options[any]{}), "work"), o...)
	for _, s := range []*stage.Stage[errand]{w.work, w.through} {
		answers(t, s)
	}
	return w
}

// answers waits until the feeds of the other process have begun, and calls are answered.
func answers(t *testing.T, s *stage.Stage[errand]) {
	t.Helper()
	eventually(t, "calls are answered", func() bool {
		_, err := stage.Call[product](t.Context(), s, errand{"finish", 1})
		if err != nil {
			assert.ErrorIs(t, err, stage.ErrNotRunning)
			assert.ErrorIs(t, err, transport.ErrUnreachable)
		}
		return err == nil
	})
}

// promisesOfCalls are what holds of a call, wherever its stage runs.
var promisesOfCalls = []struct {
	name    string
	options []stage.Option
	check   func(t *testing.T, w *workshop)
}{
	{"the result comes back", nil, func(t *testing.T, w *workshop) {
		got, err := stage.Call[product](t.Context(), w.work, errand{"double", 21})
		require.NoError(t, err)
		require.Equal(t, product{42}, got)
	}},
	{"a result that is nil is the zero value", nil, func(t *testing.T, w *workshop) {
		got, err := stage.Call[product](t.Context(), w.work, errand{"nothing", 1})
		require.NoError(t, err)
		require.Zero(t, got)
		ticket, err := w.work.Ask(t.Context(), errand{"nothing", 1})
		require.NoError(t, err)
		result, err := ticket.Wait(t.Context())
		require.NoError(t, err)
		require.Nil(t, result)
	}},
	{"an error keeps its sentinel and its text", nil, func(t *testing.T, w *workshop) {
		_, err := stage.Call[product](t.Context(), w.work, errand{"fail", 7})
		require.ErrorIs(t, err, errBroken)
		require.ErrorContains(t, err, "errand 7: broken")
		_, overloaded := stage.Overloaded(err)
		require.False(t, overloaded)
	}},
	{"an error keeps its type and its fields", nil, func(t *testing.T, w *workshop) {
		_, err := stage.Call[product](t.Context(), w.work, errand{"lack", 7})
		var lack *shortage
		require.ErrorAs(t, err, &lack)
		require.Equal(t, 7, lack.Missing)
	}},
	{"a crash is a CrashError", nil, func(t *testing.T, w *workshop) {
		_, err := stage.Call[product](t.Context(), w.work, errand{"crash", 1})
		require.True(t, stage.Crashed(err), err)
		require.ErrorContains(t, err, "oh no")
	}},
	{"a result of another type is a TypeError", nil, func(t *testing.T, w *workshop) {
		_, err := stage.Call[product](t.Context(), w.work, errand{"text", 1})
		var wrong *stage.TypeError
		require.ErrorAs(t, err, &wrong)
		require.ErrorContains(t, err, "got string; use stage.Call[string]")
		got, err := stage.Call[string](t.Context(), w.work, errand{"text", 1})
		require.NoError(t, err)
		require.Equal(t, "text", got)
	}},
	{"the result may be made by a stage further on", nil, func(t *testing.T, w *workshop) {
		got, err := stage.Call[product](t.Context(), w.work, errand{"finish", 1})
		require.NoError(t, err)
		require.Equal(t, product{2}, got)
	}},
	{"the stage may be one that the called one forwards to", nil, func(t *testing.T, w *workshop) {
		got, err := stage.Call[product](t.Context(), w.through, errand{"double", 4})
		require.NoError(t, err)
		require.Equal(t, product{8}, got)
		got, err = stage.Call[product](t.Context(), w.through, errand{"finish", 4})
		require.NoError(t, err)
		require.Equal(t, product{5}, got)
	}},
	{"the error of an emitted command is that of the call", nil, func(t *testing.T, w *workshop) {
		_, err := stage.Call[product](t.Context(), w.work, errand{"scrap", 4})
		require.ErrorIs(t, err, errBroken)
	}},
	{"a handler may call", nil, func(t *testing.T, w *workshop) {
		got, err := stage.Call[product](t.Context(), w.front, errand{"double", 4})
		require.NoError(t, err)
		require.Equal(t, product{8}, got)
		_, err = stage.Call[product](t.Context(), w.front, errand{"fail", 4})
		require.ErrorIs(t, err, errBroken)
	}},
	{"the handler's context has the caller's deadline, and ends with it", nil, func(t *testing.T, w *workshop) {
		due := time.Now().Add(time.Second)
		ctx, cancel := context.WithDeadline(t.Context(), due)
		defer cancel()
		_, err := stage.Call[product](ctx, w.work, errand{"wait", 1})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.WithinDuration(t, due, <-w.due, time.Second)
		require.Error(t, <-w.ended)
	}},
	{"the handler's context ends when the caller's does", nil, func(t *testing.T, w *workshop) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			require.Zero(t, <-w.due)
			cancel()
		}()
		_, err := stage.Call[product](ctx, w.work, errand{"wait", 1})
		require.ErrorIs(t, err, context.Canceled)
		require.Error(t, <-w.ended)
	}},
	{"a context that had ended calls nothing", nil, func(t *testing.T, w *workshop) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := stage.Call[product](ctx, w.work, errand{"wait", 1})
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, w.due)
	}},
	{
		"a full stage refuses", []stage.Option{stage.Capacity(1), stage.Instances(1), stage.Overflow(overflow.Reject)},
		func(t *testing.T, w *workshop) {
			var calls sync.WaitGroup
			var full, done atomic.Int32
			for i := range 20 {
				calls.Go(func() {
					_, err := stage.Call[product](t.Context(), w.work, errand{"gate", i})
					if err == nil {
						done.Add(1)
						return
					}
					assert.ErrorIs(t, err, stage.ErrFull)
					o, ok := stage.Overloaded(err)
					assert.True(t, ok)
					assert.Equal(t, reason.Full, o.Reason)
					full.Add(1)
				})
			}
			eventually(t, "calls are refused", func() bool { return full.Load() >= 17 })
			close(w.open)
			calls.Wait()
			require.EqualValues(t, 20, full.Load()+done.Load())
			require.Positive(t, done.Load())
		},
	},
	{
		"a full stage has its callers wait", []stage.Option{stage.Capacity(2), stage.Instances(1)},
		func(t *testing.T, w *workshop) {
			close(w.open)
			callMany(t, w.work, "gate", 200, func(n int) int { return n })
		},
	},
	{"suspended callers hold no worker", nil, func(t *testing.T, w *workshop) {
		go func() {
			eventually(t, "all calls are under way at once", func() bool { return w.inside.Load() == 100 })
			close(w.open)
		}()
		callMany(t, w.front, "gate", 100, func(n int) int { return n })
	}},
	{"each call has its own answer", nil, func(t *testing.T, w *workshop) {
		callMany(t, w.work, "double", 3000, func(n int) int { return 2 * n })
	}},
	{"a stop waits for the calls that are under way", nil, func(t *testing.T, w *workshop) {
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				got, err := stage.Call[product](t.Context(), w.work, errand{"gate", i})
				assert.NoError(t, err)
				assert.Equal(t, product{i}, got)
			})
		}
		eventually(t, "all calls are under way", func() bool { return w.inside.Load() == 20 })
		calls.Go(func() { assert.NoError(t, w.all[len(w.all)-1].Stop(context.Background())) })
		time.Sleep(50 * time.Millisecond)
		close(w.open)
		calls.Wait()
	}},
	{"a hard stop where the handlers run ends the calls", nil, func(t *testing.T, w *workshop) {
		call := make(chan error, 1)
		go func() {
			_, err := stage.Call[product](t.Context(), w.work, errand{"wait", 1})
			call <- err
		}()
		<-w.due
		p := w.all[len(w.all)-1]
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, p.Stop(ended))
		require.Error(t, <-call)
	}},
	{"a hard stop where the caller is ends the calls", nil, func(t *testing.T, w *workshop) {
		call := make(chan error, 1)
		go func() {
			_, err := stage.Call[product](t.Context(), w.front, errand{"wait", 1})
			call <- err
		}()
		<-w.due
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, w.all[0].Stop(ended))
		require.Error(t, <-call)
		require.Error(t, <-w.ended)
	}},
}

// callMany makes many calls at once.
func callMany(t *testing.T, s *stage.Stage[errand], do string, n int, want func(int) int) {
	t.Helper()
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			got, err := stage.Call[product](t.Context(), s, errand{do, i})
			if assert.NoError(t, err) {
				assert.Equal(t, product{want(i)}, got)
			}
		})
	}
	calls.Wait()
}

func TestACallKeepsItsPromisesWhereverItsStageRuns(t *testing.T) {
	t.Parallel()
	for where, world := range map[string]func(t *testing.T, o ...stage.Option) *workshop{"in the process": inOne, "in another process": inTwo} {
		for _, row := range promisesOfCalls {
			t.Run(row.name+" "+where, func(t *testing.T) {
				t.Parallel()
				w := world(t, row.options...)
				row.check(t, w)
				settled(t, w)
			})
		}
	}
}

// settled checks that each command of "work" has ended once, in each process that has the stage.
func settled(t *testing.T, w *workshop) {
	t.Helper()
	for _, p := range w.all {
		eventually(t, "nothing is in flight", func() bool { return p.Snapshot().InFlight == 0 })
		require.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
	}
	here, there := ofWork(w.all[0]), ofWork(w.all[len(w.all)-1])
	require.GreaterOrEqual(t, here.Counts.Accepted, there.Counts.Accepted, "no call is handled twice")
}

// ofWork returns the accounts of stage "work".
func ofWork(p *pipeline.Pipeline) stage.Snapshot {
	for _, s := range p.Snapshot().Stages {
		if s.Name == "work" {
			return s
		}
	}
	return stage.Snapshot{}
}
