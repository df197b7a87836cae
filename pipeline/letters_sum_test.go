package pipeline_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// tallied has an aggregate, the sum of all that its sink has had, and a Route
// that may be broken.
type tallied struct {
	of     *stage.Flow[int, window.Window[string, int]]
	sum    atomic.Int64
	broken atomic.Bool
	wrong  func() int // how the Route is broken
}

func (c *tallied) parts(b window.Bounds[int]) []pipeline.Part {
	key := func(int) string { return "all" }
	c.of = window.Aggregate("sum", key, func(n, _ int) int { return n + 1 }, b)
	sink := stage.Sink("sink", func(_ context.Context, w window.Window[string, int]) error {
		c.sum.Add(int64(w.Value))
		return nil
	})
	return []pipeline.Part{c.of.Route(func(window.Window[string, int], int) int {
		if c.broken.Load() {
			return c.wrong()
		}
		return 0
	}, sink)}
}

var wrongWays = map[string]func() int{
	"a way that does not exist": func() int { return 7 },
	"a panic":                   func() int { panic("no way") },
}

// The checkpoint passes the commands of the sums, so only the letters have them.
func TestARetryPassesOnTheSumThatALetterHasInTheNextProcessToo(t *testing.T) {
	for name, wrong := range wrongWays {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			const all, each = 1000, 100
			var position atomic.Int64
			c := &tallied{wrong: wrong}
			c.broken.Store(true)
			open := func() *pipeline.Pipeline {
				return start(t, append(c.parts(window.Bounds[int]{Count: each}), pipeline.KeepLetters(letters.Options{Dir: dir}),
					pipeline.Feed("numbers", c.of, source.Checkpoint(source.Slice(make([]int, all)), position.Load(),
						func(_ context.Context, at int64) error { position.Store(at); return nil })))...)
			}
			p := open()
			eventually(t, "the feed is exhausted", func() bool { return p.Snapshot().Feeds[0].State == "exhausted" })
			require.NoError(t, p.Stop(soon(t)))
			require.EqualValues(t, all, position.Load())

			p = open()
			list := p.Failures().List(letters.Filter{})
			require.Len(t, list, all/each)
			for _, l := range list {
				require.NoError(t, l.Missing)
				require.Equal(t, each, l.Command.(window.Window[string, int]).Value)
			}
			n, err := p.Failures().RetryAll(t.Context(), letters.Filter{}) // in vain
			require.NoError(t, err)
			require.Equal(t, all/each, n)
			eventually(t, "the letters are there again", func() bool { return p.Failures().Len() == all/each })
			require.NoError(t, p.Stop(soon(t)))

			c.broken.Store(false)
			p = open()
			n, err = p.Failures().RetryAll(t.Context(), letters.Filter{})
			require.NoError(t, err)
			require.Equal(t, all/each, n)
			require.NoError(t, p.Stop(soon(t)))
			require.EqualValues(t, all, c.sum.Load())
			require.Zero(t, p.Failures().Len())
		})
	}
}

func TestARetryPassesOnTheSumThatALetterHas(t *testing.T) {
	c := &tallied{wrong: wrongWays["a panic"]}
	c.broken.Store(true)
	heard := make(chan any, 1)
	p := start(t, append(c.parts(window.Bounds[int]{Count: 3}), pipeline.Failures(func(l stage.DeadLetter) { heard <- l.Command }))...)
	for range 3 {
		require.NoError(t, c.of.Submit(t.Context(), 1))
	}
	require.Equal(t, 3, (<-heard).(window.Window[string, int]).Value)
	letter := p.Failures().List(letters.Filter{})[0]
	var lost *window.LostError
	require.ErrorAs(t, letter.Err, &lost)
	require.Equal(t, lost.Window, letter.Command)
	var exported bytes.Buffer
	require.NoError(t, p.Failures().Export(&exported))

	c.broken.Store(false)
	require.NoError(t, p.Failures().Retry(t.Context(), letter.ID))
	eventually(t, "the sum was passed on", func() bool { return c.sum.Load() == 3 })
	n, err := p.Failures().Import(&exported)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = p.Failures().RetryAll(t.Context(), letters.Filter{})
	require.NoError(t, err)
	require.NoError(t, p.Stop(soon(t)))
	require.EqualValues(t, 6, c.sum.Load())
}

// A hard stop ends the retry before a worker has begun it.
func TestARetryThatAStopEndsLeavesALetterWithItsSum(t *testing.T) {
	c := &tallied{wrong: wrongWays["a panic"]}
	c.broken.Store(true)
	p := start(t, append(c.parts(window.Bounds[int]{Count: 3}), pipeline.Grace(50*time.Millisecond))...)
	for range 3 {
		require.NoError(t, c.of.Submit(t.Context(), 1))
	}
	eventually(t, "there is a letter", func() bool { return p.Failures().Len() == 1 })
	let, begun := make(chan struct{}), make(chan struct{})
	defer close(let)
	c.wrong = func() int { close(begun); <-let; return 7 }
	for range 3 { // occupies the worker
		require.NoError(t, c.of.Submit(t.Context(), 1))
	}
	<-begun
	n, err := p.Failures().RetryAll(t.Context(), letters.Filter{})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	stopNow(t, p)
	sums := p.DeadLetters().List(letters.Filter{If: func(l letters.Letter) bool {
		w, ok := l.Command.(window.Window[string, int])
		return ok && w.Value == 3
	}})
	require.Len(t, sums, 1)
	require.ErrorIs(t, sums[0].Err, stage.ErrStopped)
}

func TestASumThatJSONDoesNotKeepIsRefusedWithADirectoryOfLetters(t *testing.T) {
	of := window.Aggregate("sum", func(int) string { return "" }, func(n chan int, _ int) chan int { return n }, window.Bounds[int]{Count: 3})
	route := of.To(stage.Sink("len", func(context.Context, window.Window[string, chan int]) error { return nil }))
	_, err := pipeline.New("test", route, pipeline.KeepLetters(letters.Options{Dir: t.TempDir()}))
	require.ErrorContains(t, err, `stage "sum": KeepLetters cannot keep its commands in a directory: JSON does not keep all of window.Window[string,chan int]`)
}
