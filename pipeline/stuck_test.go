package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// deaf is a behaviour that ignores its context: the command 0 hangs until it is released.
type deaf struct {
	let     chan struct{}
	late    func(ctx context.Context) // what it does when it is released
	stopped *atomic.Int64
}

func (d deaf) HandleCommand(ctx context.Context, n int) behaviour.Outcome {
	if n == 0 {
		<-d.let
		if d.late != nil {
			d.late(ctx)
		}
	}
	return behaviour.OK(n)
}

func (d deaf) Stop() { d.stopped.Add(1) }

// wayOf makes stages run with their own workers, or with shared ones.
func eachWay(t *testing.T, check func(t *testing.T, way pipeline.Part)) {
	t.Helper()
	for name, way := range map[string]pipeline.Part{
		"own workers": pipeline.Subgraph(), "shared": pipeline.Control(ways(1)["fifo"]), "polled": pipeline.Control(ways(1)["exhaustive"]),
	} {
		t.Run(name, func(t *testing.T) { bubbled(t, func(t *testing.T) { check(t, way) }) })
	}
}

func TestAStuckHandlerCostsOnlyItsCommand(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		d := deaf{let: make(chan struct{}), stopped: new(atomic.Int64)}
		var made atomic.Int64
		s := stage.Each("s", func() behaviour.Behaviour[int] { made.Add(1); return d }, stage.Workers(1, 1),
			stage.Timeout(2*time.Second), stage.Grace(time.Second))
		p := bubble(t, s, way)
		begin := time.Now()
		first, err := s.Ask(t.Context(), 7)
		require.NoError(t, err)
		stuck, err := s.Ask(t.Context(), 0)
		require.NoError(t, err)
		next, err := s.Ask(t.Context(), 8)
		require.NoError(t, err)
		_, err = first.Wait(t.Context())
		require.NoError(t, err)
		_, err = stuck.Wait(t.Context())
		require.Equal(t, 3*time.Second, time.Since(begin).Round(time.Millisecond))
		crash, ok := errors.AsType[*stage.CrashError](err)
		require.True(t, ok, err)
		require.ErrorIs(t, err, stage.ErrStuck)
		require.Contains(t, string(crash.Stack), "deaf.HandleCommand", "the error says where")
		_, err = next.Wait(t.Context())
		require.NoError(t, err, "the stage has all its workers again")
		st := p.Snapshot().Stages[0]
		require.EqualValues(t, 1, st.Counts.Stuck)
		require.Equal(t, 1, st.Workers.Abandoned)
		require.EqualValues(t, 1, st.Counts.DeadLettered)
		close(d.let)
		synctest.Wait()
		st = p.Snapshot().Stages[0]
		require.Zero(t, st.Workers.Abandoned)
		require.EqualValues(t, 2, st.Counts.OK, "its late answer is ignored")
		require.EqualValues(t, 1, d.stopped.Load(), "its instance is not used any more")
		require.NoError(t, p.Stop(t.Context()))
		require.EqualValues(t, 2, made.Load())
		require.EqualValues(t, 2, d.stopped.Load())
		require.True(t, p.Snapshot().Balanced())
	})
}

// The goroutine that abandons the worker counts a partly completed batch when the worker's own clock has stopped already.
func TestTheTimeOfAStuckBatchCountsFromItsStart(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		d := deaf{let: make(chan struct{}), stopped: new(atomic.Int64)}
		s := stage.New("s", d, stage.Workers(1, 1), stage.Timeout(2*time.Second), stage.Grace(time.Second))
		p := bubble(t, s)
		time.Sleep(time.Hour)
		n, err := s.SubmitAll(t.Context(), 1, 2, 3, 4, 0) // the batches are one, two, and then the last two together
		require.NoError(t, err)
		require.Equal(t, 5, n)
		time.Sleep(4 * time.Second)
		st := p.Snapshot().Stages[0]
		require.EqualValues(t, 1, st.Counts.Stuck)
		require.Equal(t, 3*time.Second, st.Counts.BusyTime.Round(time.Millisecond))
		close(d.let)
		require.NoError(t, p.Stop(t.Context()))
	})
}

func TestAPipelineThatStopsLogsAbandonedHandlersThatStillRun(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		d := deaf{let: make(chan struct{}), stopped: new(atomic.Int64)}
		log := &scribe{lines: map[string]int{}}
		s := stage.New("s", d, stage.Timeout(time.Second), stage.Grace(time.Second))
		p := bubble(t, s, pipeline.Logger(slog.New(log)))
		_, err := stage.Call[int](t.Context(), s, 0)
		require.ErrorIs(t, err, stage.ErrStuck)
		require.NoError(t, p.Stop(t.Context()))
		lines, _ := log.told("stopped, but abandoned handlers still run")
		require.Equal(t, 1, lines)
		close(d.let)
	})
}

func TestWhatAnAbandonedHandlerDoesLaterHasNoEffect(t *testing.T) {
	other := stage.Func("other", echo[int])
	for name, late := range map[string]func(ctx context.Context){
		"panics": func(context.Context) { panic("late") },
		"exits":  func(context.Context) { runtime.Goexit() },
		"emits":  func(ctx context.Context) { _ = behaviour.Emit(ctx, other, 1) },
		"asks":   func(ctx context.Context) { _ = behaviour.Attempt(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				other = stage.Func("other", echo[int])
				d := deaf{let: make(chan struct{}), late: late, stopped: new(atomic.Int64)}
				s := stage.Each("s", func() behaviour.Behaviour[int] { return d }, stage.Workers(1, 1), stage.Timeout(time.Second))
				p := bubble(t, s, other, way)
				_, err := stage.Call[int](t.Context(), s, 0)
				require.ErrorIs(t, err, stage.ErrStuck)
				slow, err := s.Ask(t.Context(), 1)
				require.NoError(t, err)
				close(d.let)
				_, err = slow.Wait(t.Context())
				require.NoError(t, err)
				synctest.Wait()
				require.NoError(t, p.Stop(t.Context()))
				sum := p.Snapshot()
				require.True(t, sum.Balanced(), sum.Law())
				require.EqualValues(t, 2, sum.Accepted, "nothing was emitted")
				require.EqualValues(t, 1, sum.Stages[0].Counts.Crashes)
				require.Zero(t, sum.Stages[0].Workers.Abandoned)
			})
		})
	}
}

func TestAStuckCommandIsRetriedLikeACrashedOne(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		let := make(chan struct{})
		s := stage.Func("s", func(ctx context.Context, n int) behaviour.Outcome {
			if n == 0 && behaviour.Attempt(ctx) == 1 {
				<-let
			}
			return behaviour.OK(behaviour.Attempt(ctx))
		}, stage.Workers(1, 1), stage.Timeout(time.Second), stage.Retry(stage.RetryPolicy{Attempts: 2}))
		p := bubble(t, s, way)
		n, err := stage.Call[int](t.Context(), s, 0)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		close(let)
		require.NoError(t, p.Stop(t.Context()))
	})
}

// jam hangs in its first batch.
type jam struct {
	let   chan struct{}
	calls atomic.Int64
}

func (*jam) HandleCommand(context.Context, int) behaviour.Outcome { panic("it is a batcher") }

func (j *jam) HandleBatch(_ context.Context, cmds []int) []behaviour.Outcome {
	if j.calls.Add(1) == 1 {
		<-j.let
	}
	out := make([]behaviour.Outcome, len(cmds))
	for i := range cmds {
		out[i] = behaviour.OK(nil)
	}
	return out
}

func TestTheCommandsOfAStuckBatchAreHandledInSmallerBatches(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		j := &jam{let: make(chan struct{})}
		s := stage.New("s", j, stage.Workers(1, 1), stage.Timeout(time.Second), stage.Batch(4), stage.Linger(time.Second))
		p := bubble(t, s, way)
		for range 4 {
			require.NoError(t, s.Submit(t.Context(), 1))
		}
		require.NoError(t, p.Drain(t.Context()))
		require.EqualValues(t, 4, p.Snapshot().Replied)
		require.EqualValues(t, 3, j.calls.Load(), "the batch, and two of two")
		close(j.let)
		require.NoError(t, p.Stop(t.Context()))
	})
}

// Each hang loses its worker for good. The stage keeps its number of workers, and commands that were forwarded before are handed
// over.
func TestAStageWhoseHandlersSometimesHangKeepsItsNumberOfWorkers(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		let := make(chan struct{})
		sink := stage.Func("sink", echo[int], stage.Capacity(2))
		s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
			if n%10 == 9 {
				<-let
			}
			return behaviour.Forward(sink, n)
		}, stage.Workers(2, 2), stage.Timeout(time.Second), stage.Grace(100*time.Millisecond))
		p := bubble(t, s, sink, way)
		for i := range 100 {
			require.NoError(t, s.Submit(t.Context(), i))
		}
		require.NoError(t, p.Drain(t.Context()))
		sum := p.Snapshot()
		require.EqualValues(t, 90, sum.Replied)
		require.EqualValues(t, 10, sum.DeadLettered)
		require.Equal(t, 10, sum.Stages[0].Workers.Abandoned)
		close(let)
		synctest.Wait()
		require.Zero(t, p.Snapshot().Stages[0].Workers.Abandoned)
		require.NoError(t, p.Stop(t.Context()))
	})
}

// The goroutine that abandons the worker and the handler run at the same time, and only one of them may end the command.
func TestAHandlerThatCrashesWhileItIsAbandonedEndsItsCommandOnce(t *testing.T) {
	for name, end := range map[string]func(){"panics": func() { panic("now") }, "exits": runtime.Goexit, "returns": func() {}} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				s := stage.Func("s", func(context.Context, int) behaviour.Outcome {
					time.Sleep(time.Second + 100*time.Millisecond)
					end()
					return behaviour.OK(nil)
				}, stage.Workers(4, 4), stage.Timeout(time.Second), stage.Grace(100*time.Millisecond),
					stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Backoff: 1, Max: 1}))
				p := bubble(t, s, way)
				for range 200 {
					require.NoError(t, s.Submit(t.Context(), 1))
				}
				require.NoError(t, p.Drain(t.Context()))
				time.Sleep(time.Minute)
				sum := p.Snapshot()
				require.True(t, sum.Balanced(), sum.Law())
				require.EqualValues(t, 200, sum.Replied+sum.DeadLettered)
				require.Equal(t, sum.Stages[0].Counts.DeadLettered, sum.Stages[0].Counts.Crashes)
				require.Zero(t, sum.Stages[0].Workers.Abandoned)
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

// A shared worker that replaces an abandoned one starts at the same stage.
func TestAHandlerThatHangsInAReplacementWorkerIsReportedToo(t *testing.T) {
	eachWay(t, func(t *testing.T, way pipeline.Part) {
		d := deaf{let: make(chan struct{}), stopped: new(atomic.Int64)}
		s := stage.New("s", d, stage.Workers(1, 1), stage.Timeout(2*time.Second), stage.Grace(time.Second))
		p := bubble(t, s, way)
		_, err := stage.Call[int](t.Context(), s, 0)
		require.ErrorIs(t, err, stage.ErrStuck)
		require.NoError(t, s.Submit(t.Context(), 0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var report *pipeline.DrainError
		require.ErrorAs(t, p.Drain(ctx), &report)
		require.Len(t, report.Where, 1)
		require.Len(t, report.Where[0].Handlers, 1)
		require.Equal(t, "s", report.Where[0].Handlers[0].Stage)
		close(d.let)
		require.NoError(t, p.Stop(t.Context()))
	})
}

// lateBatch is a Batcher that waits for the end of its context.
type lateBatch struct{ note func(ctx context.Context) }

func (lateBatch) HandleCommand(context.Context, int) behaviour.Outcome {
	panic("a Batcher gets batches")
}

func (b lateBatch) HandleBatch(ctx context.Context, cmds []int) []behaviour.Outcome {
	b.note(ctx)
	outcomes := make([]behaviour.Outcome, len(cmds))
	for i := range outcomes {
		outcomes[i] = behaviour.OK(nil)
	}
	return outcomes
}

// With a grace of a nanosecond the timers of the grace and of the context are due at the same time.
func TestAHandlersContextEndsWithErrTimeoutHoweverShortItsGrace(t *testing.T) {
	for name, build := range map[string]func(note func(context.Context), opts ...stage.Option) *stage.Stage[int]{
		"plain": func(note func(context.Context), opts ...stage.Option) *stage.Stage[int] {
			return stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome { note(ctx); return behaviour.OK(nil) }, opts...)
		},
		"batch": func(note func(context.Context), opts ...stage.Option) *stage.Stage[int] {
			return stage.New("s", lateBatch{note}, opts...)
		},
		"coroutine": func(note func(context.Context), opts ...stage.Option) *stage.Stage[int] {
			return stage.Coroutine("s", func(c coroutine.Context, _ int) behaviour.Outcome { note(c); return behaviour.OK(nil) }, opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			causes := map[error]int{}
			s := build(func(ctx context.Context) {
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				causes[context.Cause(ctx)]++
			}, stage.Workers(4, 4), stage.Timeout(time.Millisecond), stage.Grace(1),
				stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Backoff: 1, Max: 1}))
			p, err := pipeline.New("p", s, pipeline.Logger(slog.New(slog.DiscardHandler)))
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			for range 500 {
				require.NoError(t, s.Submit(t.Context(), 0))
			}
			require.NoError(t, p.Drain(t.Context()))
			require.NoError(t, p.Stop(t.Context()))
			mu.Lock()
			defer mu.Unlock()
			require.NotEmpty(t, causes)
			for cause, n := range causes {
				require.ErrorIs(t, cause, stage.ErrTimeout, "%d times", n)
			}
		})
	}
}

func TestAnEmitThatWaitsPastItsHandlersContextEndsWithTheGrace(t *testing.T) {
	for name, build := range map[string]func(handle func(context.Context) behaviour.Outcome, opts ...stage.Option) *stage.Stage[int]{
		"plain": func(handle func(context.Context) behaviour.Outcome, opts ...stage.Option) *stage.Stage[int] {
			return stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome { return handle(ctx) }, opts...)
		},
		"coroutine": func(handle func(context.Context) behaviour.Outcome, opts ...stage.Option) *stage.Stage[int] {
			return stage.Coroutine("s", func(c coroutine.Context, _ int) behaviour.Outcome { return handle(c) }, opts...)
		},
	} {
		for after, end := range map[string]struct {
			handle func(err error, let chan struct{}) behaviour.Outcome
			want   error
		}{
			"it answers": {func(err error, _ chan struct{}) behaviour.Outcome { return behaviour.Error(err) }, stage.ErrTimeout},
			"it hangs":   {func(_ error, let chan struct{}) behaviour.Outcome { <-let; return behaviour.OK(nil) }, stage.ErrStuck},
		} {
			t.Run(name+", "+after, func(t *testing.T) {
				bubbled(t, func(t *testing.T) {
					gate, let := make(chan struct{}), make(chan struct{})
					full := stage.Func("full", func(context.Context, int) behaviour.Outcome {
						<-gate
						return behaviour.OK(nil)
					}, stage.Workers(1, 1), stage.Capacity(1))
					s := build(func(ctx context.Context) behaviour.Outcome {
						for range 300 {
							if err := behaviour.Emit(context.WithoutCancel(ctx), full, 1); err != nil {
								return end.handle(err, let)
							}
						}
						return behaviour.OK(nil)
					}, stage.Workers(1, 1), stage.Timeout(40*time.Millisecond), stage.Grace(40*time.Millisecond))
					p := bubble(t, s, full)
					defer func() { _ = p.Stop(context.Background()) }()
					ticket, err := s.Ask(t.Context(), 1)
					require.NoError(t, err)
					time.Sleep(100 * time.Millisecond)
					free := s.Snapshot().Workers.Busy == 0
					close(gate) // the ticket waits for emitted commands, too
					close(let)
					_, err = ticket.Wait(t.Context())
					require.True(t, free, "the worker takes the next command")
					require.ErrorIs(t, err, end.want)
					require.NoError(t, p.Stop(t.Context()))
					require.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
				})
			})
		}
	}
}

func TestALetterOfAStuckHandlerSaysWhereItIsStuckAndWithWhichCommand(t *testing.T) {
	var out bytes.Buffer
	lines := guarded{new(sync.Mutex), &out}
	begun, let := make(chan struct{}), make(chan struct{})
	s := stage.Keyed("s", func(o *order) string { return o.customer }, func(string) behaviour.Behaviour[*order] {
		return behaviour.Func[*order](func(context.Context, *order) behaviour.Outcome {
			close(begun)
			<-let
			return behaviour.OK(nil)
		})
	}, stage.Workers(1, 1))
	p := start(t, s, pipeline.Grace(100*time.Millisecond), pipeline.Logger(slog.New(slog.NewTextHandler(lines, nil))))
	require.NoError(t, s.Submit(t.Context(), &order{customer: "ann", card: "4444"}))
	<-begun
	require.Error(t, p.Stop(gone()))
	close(let)
	list := p.DeadLetters().List(letters.Filter{})
	require.Len(t, list, 1)
	require.ErrorIs(t, list[0].Err, stage.ErrStopped)
	require.ErrorIs(t, list[0].Err, stage.ErrStuck)
	require.Regexp(t, `stage "s": .*handler is stuck for \d+(\.\d+)?m?s in pipeline_test\..* stuck_test.go:\d+$`, list[0].Err.Error())
	lines.mu.Lock()
	defer lines.mu.Unlock()
	require.Regexp(t, `msg="dead letter" .* stage=s reason=stopped .* command=\*pipeline_test.order letter=1 key=ann`, out.String())
	require.NotContains(t, out.String(), "4444")
}
