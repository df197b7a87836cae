package pipeline_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// The commands are fed by one process after the other, each of which ends by a drain or a hard stop at a random time. Sources
// and handlers crash. Within a process no command is submitted twice. Each process begins at the last checkpoint, behind which
// nothing is missing. In the end every command was handled.
func TestNoCommandIsMissedWhateverCrashesAndHoweverProcessesEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(rt, "commands")
		crashes := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 12).Draw(rt, "crashes of sources")
		faults := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 12).Draw(rt, "faults of handlers")
		capacity := rapid.IntRange(1, 8).Draw(rt, "capacity")
		type ending struct {
			After time.Duration
			Hard  bool
		}
		endings := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) ending {
			return ending{
				time.Duration(rapid.IntRange(0, 400).Draw(rt, "after")) * time.Millisecond,
				rapid.Bool().Draw(rt, "hard"),
			}
		}), 0, 5).Draw(rt, "endings")

		synctest.Test(t, func(t *testing.T) {
			defer time.Sleep(time.Second)
			w := &feedWorld{n: n, crashes: crashes, faults: faults, handled: make([]int, n)}
			for _, end := range endings {
				w.process(t, capacity, end.After, end.Hard)
			}
			require.NoError(t, w.process(t, capacity, time.Hour, false), "the last process has the time to end")
			require.EqualValues(t, n, w.kept)
			for i, times := range w.handled {
				require.Positive(t, times, "command %d", i)
			}
		})
	})
}

// feedWorld is what outlives a process, and what goes wrong in one.
type feedWorld struct {
	n       int
	crashes []int
	faults  []int

	mu        sync.Mutex
	handled   []int // how often each command was handled, or failed in its last attempt
	submitted map[int]bool
	calls     int
	crashed   int // sources of the present process: at ten within five minutes it would give up
	kept      int64
}

// process runs a pipeline until it has fed all commands, or for a while.
func (w *feedWorld) process(t *testing.T, capacity int, while time.Duration, hard bool) error {
	w.submitted, w.crashed = map[int]bool{}, 0
	last := stage.Sink("last", w.handle, stage.Capacity(capacity), stage.Workers(1, 3),
		stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: 3 * time.Millisecond}))
	first := stage.Map("first", func(_ context.Context, n int) (int, error) { time.Sleep(time.Millisecond); return n, nil },
		stage.Capacity(capacity))
	p, err := pipeline.New("p", quiet, first.To(last), pipeline.KeepLetters(letters.Options{Most: 10*w.n + 1}), pipeline.DrainTimeout(time.Hour),
		pipeline.Feed("numbers", first, source.Checkpoint(w.source(), w.kept, func(_ context.Context, at int64) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			require.Greater(t, at, w.kept)
			for i := range at {
				require.Positive(t, w.handled[i], "command %d is before the checkpoint %d", i, at)
			}
			w.kept = at
			return nil
		})))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	if !hard {
		err = p.Run(ctx)
	} else {
		require.NoError(t, p.Start(t.Context()))
		<-ctx.Done()
		now, cancel := context.WithCancel(t.Context())
		cancel()
		err = p.Stop(now)
	}
	s := p.Snapshot()
	require.True(t, s.Balanced(), s.Law())
	require.Zero(t, s.InFlight, s.Law())
	require.Equal(t, uint64(len(w.submitted)), s.Feeds[0].Submitted)
	if s.Feeds[0].Position > 0 { // the source has run
		require.Equal(t, w.kept, s.Feeds[0].Checkpoint)
	}
	return err
}

// source submits the commands, and crashes.
func (w *feedWorld) source() source.Source[int] {
	return func(ctx context.Context, submit func(int) error) error {
		for i := int(source.Position(ctx)); i < w.n; i++ {
			w.mu.Lock()
			w.calls++
			crash := w.crashes[w.calls%len(w.crashes)]
			if w.calls%7 != 0 || w.crashed == 9 {
				crash = 0
			}
			if crash > 0 {
				w.crashed++
			}
			w.mu.Unlock()
			switch crash {
			case 1:
				return errNo
			case 2:
				panic("no")
			case 3:
				runtime.Goexit()
			}
			if err := submit(i); err != nil {
				return err
			}
			w.mu.Lock()
			if w.submitted[i] {
				panic("submitted twice")
			}
			w.submitted[i] = true
			w.mu.Unlock()
		}
		return nil
	}
}

// handle handles a command, or fails.
func (w *feedWorld) handle(ctx context.Context, n int) error {
	w.mu.Lock()
	w.calls++
	fault := w.faults[(w.calls+n)%len(w.faults)]
	if w.calls%4 == 0 {
		fault = 0 // a stage that completes nothing would give up
	}
	w.mu.Unlock()
	if fault == 3 {
		time.Sleep(20 * time.Millisecond)
	}
	if failed := fault == 1 || fault == 2; !failed || behaviour.Attempt(ctx) == 3 {
		w.mu.Lock()
		w.handled[n]++
		w.mu.Unlock()
	}
	switch fault {
	case 1:
		return errNo
	case 2:
		panic("no")
	}
	return nil
}
