package pipeline_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// kept returns the commands of all letters of a pipeline.
func kept(p *pipeline.Pipeline) (commands []any) {
	for _, of := range []*letters.Store{p.Failures(), p.DeadLetters(), p.Quarantine()} {
		for _, l := range of.List(letters.Filter{}) {
			commands = append(commands, l.Command)
		}
	}
	return commands
}

// untilStopped is a handler that ends with the pipeline.
func untilStopped[C any](ctx context.Context, _ C) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestLettersThatAHardStopFindsInTheirRetryAreThereAgain(t *testing.T) {
	const many = 40
	let := make(chan struct{})
	defer close(let)
	for name, handle := range map[string]func(context.Context, int) error{
		"in a handler that ends with the pipeline": untilStopped[int],
		"in a handler that outlasts the grace":     func(context.Context, int) error { <-let; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := stage.Sink("s", func(context.Context, int) error { return errNo })
			p := start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}))
			for i := range many {
				require.NoError(t, s.Submit(t.Context(), i))
			}
			require.NoError(t, p.Stop(soon(t)))
			s = stage.Sink("s", handle)
			p = start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}), pipeline.Grace(10*time.Millisecond))
			n, err := p.Failures().RetryAll(t.Context(), letters.Filter{})
			require.NoError(t, err)
			require.Equal(t, many, n)
			require.Error(t, p.Stop(gone()))
			s = stage.Sink("s", func(context.Context, int) error { return nil })
			p = start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}))
			require.Len(t, kept(p), many)
			require.NoError(t, p.Stop(soon(t)))
		})
	}
}

// The result of a window is on its way when the pipeline stops hard. One of its commands comes again from a checkpoint, or its caller has
// the error, and the other is nowhere else.
func TestACommandThatIsNowhereElseIsInALetterWhateverElseIsInItsWindow(t *testing.T) {
	type opened struct {
		*pipeline.Pipeline

		pairs *stage.Stage[string]
		slow  *stage.Stage[window.Window[string, []string]]
		feed  chan string
	}
	open := func(t *testing.T, dir string, checkpoint bool) opened {
		pairs := window.By("pairs", func(string) string { return "" }, window.Bounds[string]{Count: 2})
		slow := stage.Sink("slow", untilStopped[window.Window[string, []string]], stage.Workers(1, 1))
		o := opened{pairs: pairs.Stage, slow: slow.Stage, feed: make(chan string)}
		var in source.Source[string] = func(ctx context.Context, submit func(string) error) error {
			select {
			case s := <-o.feed:
				if err := submit(s); err != nil {
					return err
				}
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil
		}
		parts := []pipeline.Part{pairs.To(slow), pipeline.KeepLetters(letters.Options{Dir: dir})}
		if checkpoint {
			parts = append(parts, pipeline.Feed("in", pairs, in), pipeline.Checkpoint(filepath.Join(dir, "checkpoint"), time.Hour))
		} else {
			save := func(context.Context, int64) error { return nil }
			parts = append(parts, pipeline.Feed("in", pairs, source.Checkpoint(in, 0, save)))
		}
		o.Pipeline = start(t, parts...)
		return o
	}
	send := map[string]func(*testing.T, opened){
		"submitted": func(t *testing.T, o opened) { require.NoError(t, o.pairs.Submit(t.Context(), "submitted")) },
		"called": func(_ *testing.T, o opened) {
			go func() { _, _ = stage.Call[any](context.Background(), o.pairs, "called") }()
		},
		"fed": func(_ *testing.T, o opened) { o.feed <- "fed" },
	}
	for _, c := range []struct {
		first, second string
		checkpoint    bool // of the pipeline
		letter        bool
	}{
		{"submitted", "called", false, true},
		{"called", "submitted", false, true},
		{"submitted", "fed", false, true},
		{"fed", "submitted", false, true},
		{"fed", "called", false, true},
		{"submitted", "fed", true, true},
		{"fed", "submitted", true, true},
		{"submitted", "submitted", true, true},
		{"called", "fed", true, true},
		{"fed", "called", true, true},
	} {
		t.Run(fmt.Sprintf("%s, then %s, checkpoint %v", c.first, c.second, c.checkpoint), func(t *testing.T) {
			dir := t.TempDir()
			o := open(t, dir, c.checkpoint)
			send[c.first](t, o)
			eventually(t, "the first is in the window", func() bool { return o.pairs.Snapshot().Counts.Accepted == 1 })
			send[c.second](t, o)
			eventually(t, "the window is on its way", func() bool { return o.slow.Snapshot().Counts.Accepted == 1 })
			_ = o.Stop(gone())
			o = open(t, dir, c.checkpoint)
			defer func() { _ = o.Stop(gone()) }()
			require.Equal(t, c.letter, len(kept(o.Pipeline)) > 0)
		})
	}
}

// A window of which all commands come again is in no letter: they would be handled twice.
func TestAWindowWhoseCommandsAllComeAgainIsInNoLetter(t *testing.T) {
	for _, checkpoint := range []bool{false, true} {
		t.Run(fmt.Sprint(checkpoint), func(t *testing.T) {
			dir := t.TempDir()
			open := func() (*pipeline.Pipeline, *stage.Stage[window.Window[string, []string]]) {
				pairs := window.By("pairs", func(string) string { return "" }, window.Bounds[string]{Count: 2})
				slow := stage.Sink("slow", untilStopped[window.Window[string, []string]], stage.Workers(1, 1))
				parts := []pipeline.Part{pairs.To(slow), pipeline.KeepLetters(letters.Options{Dir: dir})}
				in := source.Slice([]string{"one", "two"})
				if checkpoint {
					parts = append(parts, pipeline.Checkpoint(filepath.Join(dir, "checkpoint"), time.Hour))
				} else {
					in = source.Checkpoint(in, 0, func(context.Context, int64) error { return nil })
				}
				return start(t, append(parts, pipeline.Feed("in", pairs, in))...), slow.Stage
			}
			p, slow := open()
			eventually(t, "the window is on its way", func() bool { return slow.Snapshot().Counts.Accepted == 1 })
			_ = p.Stop(gone())
			p, slow = open()
			require.Empty(t, kept(p))
			eventually(t, "the commands come again", func() bool { return slow.Snapshot().Counts.Accepted == 1 })
			_ = p.Stop(gone())
		})
	}
}

// A window that could not be passed on is a letter. Its retry is on its way when the pipeline stops hard.
func TestAWindowOfALetterIsThereAgainAfterAHardStopInItsRetry(t *testing.T) {
	dir := t.TempDir()
	open := func(sink func(context.Context, window.Window[int, int]) error, way int) (*pipeline.Pipeline, *stage.Flow[int, window.Window[int, int]], *stage.Stage[window.Window[int, int]]) {
		count := window.Aggregate("count", func(int) int { return 0 }, func(n, _ int) int { return n + 1 }, window.Bounds[int]{Count: 3})
		add := stage.Sink("add", sink, stage.Workers(1, 1))
		route := count.Route(func(window.Window[int, int], int) int { return way }, add)
		return start(t, route, pipeline.KeepLetters(letters.Options{Dir: dir})), count, add.Stage
	}
	p, count, _ := open(untilStopped[window.Window[int, int]], 7) // there is no such way
	for i := range 3 {
		require.NoError(t, count.Submit(t.Context(), i))
	}
	eventually(t, "a letter", func() bool { return len(kept(p)) == 1 })
	require.NoError(t, p.Stop(soon(t)))
	p, _, add := open(untilStopped[window.Window[int, int]], 0)
	n, err := p.Failures().RetryAll(t.Context(), letters.Filter{})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	eventually(t, "the window is on its way", func() bool { return add.Snapshot().Counts.Accepted == 1 })
	_ = p.Stop(gone())
	sum := 0
	p, _, add = open(func(_ context.Context, w window.Window[int, int]) error { sum += w.Value; return nil }, 0)
	for _, of := range []*letters.Store{p.Failures(), p.DeadLetters()} {
		_, err = of.RetryAll(t.Context(), letters.Filter{})
		require.NoError(t, err)
	}
	require.NoError(t, p.Stop(soon(t)))
	require.Equal(t, 3, sum)
	require.EqualValues(t, 1, add.Snapshot().Counts.OK)
}
