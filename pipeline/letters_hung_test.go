package pipeline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// stopNow stops a pipeline hard.
func stopNow(t *testing.T, p *pipeline.Pipeline) {
	ended, stop := context.WithCancel(context.Background())
	stop()
	require.Error(t, p.Stop(ended))
}

// One worker has taken a batch. The handler of a command in the middle of it hangs, so a hard stop abandons the worker.
func TestOfABatchOnlyTheCommandThatHangsIsMissingInTheNextProcess(t *testing.T) {
	const at, all = 20, 60
	for _, c := range []struct {
		name string
		opts []stage.Option
	}{
		{"Plain", nil},
		{"WithATimeLimit", []stage.Option{stage.Timeout(time.Hour)}},
		{"InOrder", []stage.Option{stage.Ordered()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			let, hung := make(chan struct{}), make(chan struct{})
			defer close(let)
			var mu sync.Mutex
			begun := map[int]bool{}
			first := make(chan struct{})
			s := stage.Sink("s", func(_ context.Context, h hook) error {
				mu.Lock()
				begun[h.ID] = true
				mu.Unlock()
				switch h.ID {
				case 0:
					<-first
				case at:
					close(hung)
					<-let
				}
				return nil
			}, append(c.opts, stage.Workers(1, 1), stage.Capacity(2*all))...)
			p := start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}), pipeline.Grace(100*time.Millisecond))
			for i := range all {
				require.NoError(t, s.Submit(t.Context(), hook{ID: i}))
			}
			close(first)
			<-hung
			stopNow(t, p)

			s = stage.Sink("s", func(context.Context, hook) error { return nil })
			p = start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}))
			defer func() { require.NoError(t, p.Stop(soon(t))) }()
			missing, there := 0, map[int]bool{}
			for _, l := range p.DeadLetters().List(letters.Filter{}) {
				if l.Missing != nil {
					missing++
					require.ErrorContains(t, l.Err, stage.ErrStuck.Error())
					continue
				}
				id := l.Command.(hook).ID
				there[id] = true
				require.NotContains(t, l.Err.Error(), stage.ErrStuck.Error(), id)
				require.Equal(t, begun[id], id < at)
				if begun[id] {
					require.ErrorContains(t, l.Err, "was handled")
				}
			}
			require.Equal(t, 1, missing)
			for id := at + 1; id < all; id++ {
				require.True(t, there[id], id)
			}
			require.NotContains(t, there, at)
		})
	}
}

// hangingBatch is a batch handler that does not return.
type hangingBatch struct {
	begun chan int
	let   chan struct{}
}

func (hangingBatch) HandleCommand(context.Context, int) behaviour.Outcome { panic("it is a batcher") }

func (h hangingBatch) HandleBatch(_ context.Context, cmds []int) []behaviour.Outcome {
	h.begun <- len(cmds)
	<-h.let
	return make([]behaviour.Outcome, len(cmds))
}

func TestOfABatchThatAHandlerHasWholeAllCommandsAreMissing(t *testing.T) {
	dir := t.TempDir()
	h := hangingBatch{make(chan int, 10), make(chan struct{})}
	defer close(h.let)
	s := stage.New("s", h, stage.Workers(1, 1))
	p := start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}), pipeline.Grace(100*time.Millisecond))
	_, err := s.SubmitAll(t.Context(), 1, 2, 3, 4, 5)
	require.NoError(t, err)
	n := <-h.begun
	stopNow(t, p)
	p = start(t, stage.Sink("s", func(context.Context, int) error { return nil }), pipeline.KeepLetters(letters.Options{Dir: dir}))
	defer func() { require.NoError(t, p.Stop(soon(t))) }()
	missing := 0
	for _, l := range p.DeadLetters().List(letters.Filter{}) {
		if l.Missing != nil {
			missing++
		}
	}
	require.Equal(t, n, missing)
	require.Equal(t, 5, p.DeadLetters().Len())
}

// hungHandlers make a stage whose handlers do not return until let is closed.
var hungHandlers = map[string]func(let chan struct{}, opts ...stage.Option) *stage.Stage[hook]{
	"Plain": func(let chan struct{}, opts ...stage.Option) *stage.Stage[hook] {
		return stage.Func("s", func(context.Context, hook) behaviour.Outcome { <-let; return behaviour.OK(nil) }, opts...)
	},
	"Coroutine": func(let chan struct{}, opts ...stage.Option) *stage.Stage[hook] {
		return stage.Coroutine("s", func(behaviour.Suspender, hook) behaviour.Outcome { <-let; return behaviour.OK(nil) }, opts...)
	},
	"Resumed": func(let chan struct{}, opts ...stage.Option) *stage.Stage[hook] {
		return stage.Coroutine("s", func(c behaviour.Suspender, _ hook) behaviour.Outcome {
			err := c.Suspend(func(wake func()) { go wake() }) // the time limit may be over before
			<-let
			return behaviour.Error(err)
		}, opts...)
	},
	"StoppedWhileSuspended": func(let chan struct{}, opts ...stage.Option) *stage.Stage[hook] {
		return stage.Coroutine("s", func(c behaviour.Suspender, _ hook) behaviour.Outcome {
			err := c.Suspend(func(func()) {})
			<-let
			return behaviour.Error(err)
		}, opts...)
	},
	"Keyed": func(let chan struct{}, opts ...stage.Option) *stage.Stage[hook] {
		return stage.Keyed("s", func(h hook) int { return h.ID }, func(int) behaviour.Coroutine[hook] {
			return func(behaviour.Suspender, hook) behaviour.Outcome { <-let; return behaviour.OK(nil) }
		}, opts...)
	},
}

// The handler outlives its time limit and the grace, and returns before the stop.
func TestACommandWhoseHandlerReturnsLateIsThereInTheNextProcess(t *testing.T) {
	for name, hung := range hungHandlers {
		for _, attempts := range []int{1, 2} {
			t.Run(fmt.Sprint(name, "/Attempts", attempts), func(t *testing.T) {
				dir := t.TempDir()
				let := make(chan struct{})
				s := hung(let, stage.Timeout(time.Millisecond), stage.Grace(time.Millisecond), stage.Retry(stage.RetryPolicy{Attempts: attempts}))
				p := start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}))
				submitted := 0
				eventually(t, "the letter is there", func() bool {
					if p.Failures().Len() == submitted { // the first, or the time limit of the one before was over before its handler was called
						require.NoError(t, s.Submit(t.Context(), hook{ID: 42}))
						submitted++
					}
					return p.Quarantine().Len() == 1
				})
				close(let)
				eventually(t, "the handler has returned", func() bool { return s.Snapshot().Workers.Abandoned == 0 })
				require.NoError(t, p.Stop(soon(t)))
				require.Equal(t, 42, letterOf(t, dir, (*pipeline.Pipeline).Quarantine).ID)
			})
		}
	}
}

// The handler outlives the grace of a hard stop, and returns before the stop has closed the letters.
func TestACommandWhoseHandlerReturnsDuringAHardStopIsThereInTheNextProcess(t *testing.T) {
	for name, hung := range hungHandlers {
		for limit, opts := range map[string][]stage.Option{"NoLimit": nil, "Limit": {stage.Timeout(time.Hour)}} {
			t.Run(name+"/"+limit, func(t *testing.T) {
				dir := t.TempDir()
				let := make(chan struct{})
				s := hung(let, opts...)
				p := start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}), pipeline.Grace(50*time.Millisecond), pipeline.DeadLetters(func(stage.DeadLetter) {
					close(let)
					eventually(t, "the handler has returned", func() bool { return s.Snapshot().Workers.Abandoned == 0 })
				}))
				require.NoError(t, s.Submit(t.Context(), hook{ID: 42}))
				eventually(t, "the handler has begun", func() bool { return s.Snapshot().Queue.Queued == 0 })
				stopNow(t, p)
				require.Equal(t, 42, letterOf(t, dir, (*pipeline.Pipeline).DeadLetters).ID)
			})
		}
	}
}

// letterOf returns the command of the one letter that the next process finds in a directory.
func letterOf(t *testing.T, dir string, store func(*pipeline.Pipeline) *letters.Store) hook {
	t.Helper()
	p := start(t, stage.Sink("s", func(context.Context, hook) error { return nil }), pipeline.KeepLetters(letters.Options{Dir: dir}))
	defer func() { require.NoError(t, p.Stop(soon(t))) }()
	list := store(p).List(letters.Filter{})
	require.Len(t, list, 1)
	require.NoError(t, list[0].Missing)
	return list[0].Command.(hook)
}
