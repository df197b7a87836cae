package window_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// open has the windows of a stage, with times since the start.
type open struct {
	windows, commands int
	oldest, closes    time.Duration // -1: never
}

func opened[T any](b *bench[T], stage string) open {
	b.t.Helper()
	synctest.Wait()
	timers, err := link.Operate(b.p).Timers(stage)
	require.NoError(b.t, err)
	require.True(b.t, timers.Windows.Whole)
	o := open{timers.Windows.Open, timers.Windows.Commands, -1, -1}
	if at := timers.Windows.Oldest; !at.IsZero() {
		o.oldest = at.Sub(b.begin)
	}
	for _, tick := range timers.Ticks {
		require.Equal(b.t, "close a window", tick.What)
		o.closes = tick.At.Sub(b.begin)
	}
	return o
}

func TestTheOpenWindowsOfAStageAreCounted(t *testing.T) {
	const second = time.Second
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of the time in a bubble
	sum := func(all []word, w word) []word { return append(all[:len(all):len(all)], w) }
	for name, form := range map[string]struct {
		flow func() *stage.Flow[word, group]
		want open // after a1 at 1 s, b1 and a2 at 3 s
	}{
		"by a time": {
			func() *stage.Flow[word, group] { return by(window.Bounds[word]{Time: 10 * second}) }, open{2, 3, second, 11 * second},
		},
		"at each minute": {
			func() *stage.Flow[word, group] { return by(window.Bounds[word]{Every: time.Minute}) }, open{2, 3, second, time.Minute},
		},
		"idle": {
			func() *stage.Flow[word, group] { return by(window.Bounds[word]{Idle: 10 * second}) }, open{2, 3, second, 13 * second},
		},
		"by a count": {
			func() *stage.Flow[word, group] { return by(window.Bounds[word]{Count: 10}) }, open{2, 3, second, -1},
		},
		"summed up": {
			func() *stage.Flow[word, group] {
				return window.Aggregate("words", word.of, sum, window.Bounds[word]{Time: 10 * second})
			},
			open{2, 3, second, 11 * second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				require.True(t, time.Now().Equal(begin))
				b := start(t, form.flow(), textOf)
				require.Equal(t, open{0, 0, -1, -1}, opened(b, "words"))
				time.Sleep(second)
				b.submit("a1")
				time.Sleep(2 * second)
				b.submit("b1", "a2")
				require.Equal(t, form.want, opened(b, "words"))
				b.stop()
				require.Equal(t, open{0, 0, -1, -1}, opened(b, "words"))
			})
		})
	}
}

func TestAPeriodWithoutCommandsIsNoOpenWindow(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, window.Throttle("words", word.of, time.Minute), func(w word) string { return w.text })
		b.submit("a1")
		require.Equal(t, open{0, 0, -1, -1}, opened(b, "words"))
		time.Sleep(time.Second)
		b.submit("a2", "a3")
		require.Equal(t, open{1, 2, time.Second, time.Minute}, opened(b, "words"))
		b.stop()
	})
}

// The lock is held for a bounded time.
func TestOfVeryManyOpenWindowsTheOldestAreLookedAt(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const many = link.MostWindows + 1
		of := window.Aggregate("sum", func(n int) int { return n }, func(sum, n int) int { return sum + n },
			window.Bounds[int]{Time: time.Minute, Held: 2 * many})
		p, err := pipeline.New("test", led(of), pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for n := range many {
			require.NoError(t, of.Submit(t.Context(), n))
		}
		synctest.Wait()
		timers, err := link.Operate(p).Timers("sum")
		require.NoError(t, err)
		require.Equal(t, many, timers.Windows.Open)
		require.Equal(t, link.MostWindows, timers.Windows.Commands)
		require.False(t, timers.Windows.Whole)
		require.Len(t, timers.Ticks, 1)
		require.NoError(t, p.Stop(t.Context()))
	})
}
