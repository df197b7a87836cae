package worker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/version"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/worker"
)

// crate is a command that travels in a box.
type crate struct {
	n    int
	text string
	half float64
}

func newCrate(n int) crate { return crate{n, fmt.Sprint("crate ", n), float64(n) / 2} }

// eachBox runs a test in which boxes are used again, and in which none is, so that a use of a recycled box panics.
func eachBox(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Run("used again", f)
	t.Run("retired", func(t *testing.T) {
		defer command.Retire()()
		f(t)
	})
}

// dawdler is an instance that takes its command out of the box late in the first try of command 1: a goroutine may be delayed
// there for any time.
type dawdler struct {
	engine.Instance
	tries *atomic.Int32
	let   chan struct{}
	late  chan crate
	many  bool
}

func (d dawdler) Many() bool     { return d.many }
func (d dawdler) Suspends() bool { return false }

func (d dawdler) Handle(_ context.Context, load any) behaviour.Outcome {
	if link.Open[crate](load).n == 1 && d.tries.Add(1) == 1 {
		<-d.let
		d.late <- opened(load)
	}
	return behaviour.OK(nil)
}

// opened returns the command of a load, or none if its box is free.
func opened(load any) (c crate) {
	defer func() { _ = recover() }()
	return link.Open[crate](load)
}

func (d dawdler) HandleMany(ctx context.Context, batch worker.Batch) (outcomes []behaviour.Outcome) {
	for _, e := range batch {
		outcomes = append(outcomes, d.Handle(ctx, e.Load))
	}
	return outcomes
}

func TestABoxThatAHandlerWhichWasGivenUpMayStillReadIsNotRecycled(t *testing.T) {
	for name, many := range map[string]bool{"one by one": false, "batches": true} {
		t.Run(name, func(t *testing.T) {
			eachBox(t, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					d := dawdler{tries: new(atomic.Int32), let: make(chan struct{}), late: make(chan crate, 1), many: many}
					nothing := behaviour.Func[crate](func(context.Context, crate) behaviour.Outcome { return behaviour.OK(nil) })
					s := stage.Each("s", func() behaviour.Behaviour[crate] { return nothing }, stage.Workers(1, 1), stage.Timeout(time.Second),
						stage.Grace(time.Second), stage.Retry(stage.RetryPolicy{Attempts: 3}))
					core := engine.CoreOf(s)
					core.Install(func(of *version.Version) engine.Instance { return ofVersion{d, of} })
					p := run(t, s)
					for i := range 100 {
						require.NoError(t, s.Submit(t.Context(), newCrate(i)))
						time.Sleep(time.Minute) // time for the next try, and for the worker's next turn
					}
					require.EqualValues(t, 2, d.tries.Load())
					close(d.let)
					require.Equal(t, newCrate(1), <-d.late)
					stop(t, p)
				})
			})
		})
	}
}

// ofVersion is a dawdler that a version has made.
type ofVersion struct {
	dawdler
	of *version.Version
}

func (o ofVersion) Start(context.Context) error { return nil }
func (o ofVersion) Stop()                       {}
func (o ofVersion) Stops() bool                 { return false }
func (o ofVersion) Of() *version.Version        { return o.of }
func (o ofVersion) Version() string             { return "" }
func (o ofVersion) Saved() *version.Saved       { return nil }

func (o ofVersion) HandleEach(ctx context.Context, w *worker.Worker, batch worker.Batch) {
	for i := range batch {
		w.Settle(o.Handle(ctx, batch[i].Load))
	}
}

// At a hard stop the inbox ends the commands of a batch, those that the worker has completed and not booked too.
func TestLettersOfAnAbandonedBatchHaveTheCommandsThatWereInTheBoxes(t *testing.T) {
	eachBox(t, func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var mu sync.Mutex
			letters := map[int]crate{}
			let := make(chan struct{})
			var from atomic.Int32
			s := stage.Func("s", func(_ context.Context, c crate) behaviour.Outcome {
				if at := from.Load(); at > 0 && c.n >= int(at)+5 {
					<-let
				}
				return behaviour.OK(nil)
			}, stage.Workers(1, 1))
			p := run(t, s, pipeline.Grace(time.Second), pipeline.DeadLetters(func(l stage.DeadLetter) {
				mu.Lock()
				defer mu.Unlock()
				c, ok := l.Command.(crate)
				assert.True(t, ok, "%T", l.Command)
				letters[c.n] = c
			}))
			submit := func(from, to int) {
				var cmds []crate
				for i := from; i < to; i++ {
					cmds = append(cmds, newCrate(i))
				}
				accepted, err := s.SubmitAll(t.Context(), cmds...)
				require.NoError(t, err)
				require.Equal(t, len(cmds), accepted)
				synctest.Wait()
			}
			for i := range 20 { // the batches grow
				submit(100*i, 100*i+100)
			}
			from.Store(5000)
			submit(5000, 5100)
			over, cancel := context.WithCancel(t.Context())
			cancel()
			err := p.Stop(over)
			require.Error(t, err)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			mu.Lock()
			require.NotEmpty(t, letters)
			require.Contains(t, letters, 5005, "it is stuck")
			require.Contains(t, letters, 5000, "it was completed, and not booked")
			for n, c := range letters {
				require.Equal(t, newCrate(n), c)
			}
			mu.Unlock()
			close(let)
		})
	})
}
