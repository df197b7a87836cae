package window_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// million is as many commands as no checkpoint lets pass.
const million = 1_000_000

func whole(int) struct{} { return struct{}{} }

func plus(sum, n int) int { return sum + n }

func unsaved(context.Context, int64) error { return nil }

func naturals(ctx context.Context, submit func(int) error) error {
	for n := int(source.Position(ctx)); ; n++ {
		if err := submit(n); err != nil {
			return err
		}
	}
}

func TestAWindowThatACheckpointNeverLetsCloseIsRefused(t *testing.T) {
	double := func(_ context.Context, n int) (int, error) { return 2 * n, nil }
	sum := func(b window.Bounds[int]) *stage.Flow[int, window.Window[struct{}, int]] {
		return led(window.Aggregate("sum", whole, plus, b))
	}
	refused := func(parts ...pipeline.Part) {
		t.Helper()
		_, err := pipeline.New("test", parts...)
		require.ErrorContains(t, err, `Feed "numbers"`)
		require.ErrorContains(t, err, `16384 commands`)
		require.ErrorContains(t, err, `1000000 commands close a window of stage "sum"`)
	}
	accepted := func(parts ...pipeline.Part) {
		t.Helper()
		_, err := pipeline.New("test", parts...)
		require.NoError(t, err)
	}
	feed := func(to behaviour.Target[int]) pipeline.Part {
		return pipeline.Feed("numbers", to, source.Checkpoint(naturals, 0, unsaved))
	}

	refused(feed(sum(window.Bounds[int]{Count: million})))
	twice, of := stage.Map("twice", double), sum(window.Bounds[int]{Count: million})
	refused(feed(twice), twice.To(of))
	refused(feed(led(window.All("sum", window.Bounds[int]{Count: million, Held: 2 * million}))))

	accepted(pipeline.Feed("numbers", sum(window.Bounds[int]{Count: million}), naturals))
	accepted(feed(sum(window.Bounds[int]{Count: 1000})))
	accepted(feed(sum(window.Bounds[int]{Count: million, Time: time.Hour})))
	accepted(feed(sum(window.Bounds[int]{Count: million, Bytes: million, Size: func(int) int { return 1000 }})))
	accepted(feed(led(window.All("sum", window.Bounds[int]{Count: 10_000})))) // the oldest is closed when 10,000 are held
	many := stage.FlatMap("many", func(_ context.Context, n int, emit func(int) error) error {
		for range 1000 {
			if err := emit(n); err != nil {
				return err
			}
		}
		return nil
	})
	of = sum(window.Bounds[int]{Count: million})
	accepted(feed(many), many.To(of))
}

// New does not see into a function around the checkpoint.
func TestAFeedWithAHiddenCheckpointGivesUpBeforeItStandsStill(t *testing.T) {
	src := source.Checkpoint(naturals, 0, unsaved)
	hidden := func(ctx context.Context, submit func(int) error) error { return src(ctx, submit) }
	of := led(window.Aggregate("sum", whole, plus, window.Bounds[int]{Count: million}))
	p, err := pipeline.New("test", pipeline.Feed("numbers", of, hidden), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	err = p.Run(t.Context())
	require.ErrorContains(t, err, `feed "numbers": gave up`)
	require.ErrorContains(t, err, `a window of stage "sum"`)
}

// lines are those of a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// having returns the lines with a text.
func (l *lines) having(text string) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.text.Bytes()) {
		if bytes.Contains(line, []byte(text)) {
			all = append(all, string(line))
		}
	}
	return all
}

func TestASourceThatWaitsForMinutesForItsFirstCommandIsLogged(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var log lines
		of := led(window.Aggregate("sum", whole, plus, window.Bounds[int]{Time: time.Hour}))
		p, err := pipeline.New("test", pipeline.Feed("numbers", of, source.Checkpoint(naturals, 0, unsaved)),
			pipeline.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		time.Sleep(59 * time.Second)
		synctest.Wait()
		require.Empty(t, log.having("a source waits"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		first := log.having("a source waits")
		require.Len(t, first, 1)
		for _, part := range []string{"feed=numbers", "stage=sum", `waits_in="sum (0 queued`, "passed=16384", "for=1m0s"} {
			assert.Contains(t, first[0], part)
		}
		time.Sleep(57 * time.Minute) // of the hour: after 1, 3, 7, 15 and 31 minutes
		synctest.Wait()
		require.Len(t, log.having("a source waits"), 5)
		require.NoError(t, p.Stop(t.Context()))
	})
}
