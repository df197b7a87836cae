package dashboard_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// stageTimers is the answer about the windows and timers of a stage.
type stageTimers struct {
	Stage   string
	Windows *struct {
		Open, Commands int
		OldestNs       time.Duration
		Watermark      *time.Time
		Whole          bool
	}
	Ticks []struct {
		What    string
		InNs    time.Duration
		Process string
	}
}

// newTeller starts a pipeline of a stage with windows of an hour, and one that a
// clock feeds. It returns a function that submits a number to the windows.
func newTeller(t *testing.T) (p *pipeline.Pipeline, submit func(n int)) {
	t.Helper()
	sums := window.Aggregate("sums", func(n int) int { return n % 2 }, func(sum, n int) int { return sum + n }, window.Bounds[int]{Time: time.Hour})
	sink := stage.Sink("report", func(context.Context, window.Window[int, int]) error { return nil })
	hourly := stage.Sink("hourly", func(context.Context, time.Time) error { return nil })
	p, err := pipeline.New("teller", sums.To(sink), hourly, pipeline.Feed("clock", hourly, source.Every(time.Hour)), pipeline.Logger(discard()))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, p.Stop(context.Background())) //nolint:usetesting // the test's has ended
	})
	return p, func(n int) { require.NoError(t, sums.Submit(t.Context(), n)) }
}

// awaitTimers waits until a stage has n open windows, or n ticks if it has no
// windows.
func awaitTimers(t *testing.T, server *httptest.Server, stage string, n int) (got stageTimers) {
	t.Helper()
	require.Eventually(t, func() bool {
		got = read[stageTimers](t, server, "/timers?stage="+stage)
		if got.Windows != nil {
			return got.Windows.Open == n && len(got.Ticks) == min(n, 1)
		}
		return len(got.Ticks) == n
	}, giveUp, time.Millisecond)
	return got
}

func TestTheOpenWindowsAndTheNextTicksOfAStageAreInTheAnswers(t *testing.T) {
	p, submit := newTeller(t)
	server := newDashboard(t, p, dashboard.Options{})
	awaitTimers(t, server, "sums", 0)
	for n := range 5 {
		submit(n)
	}
	require.Eventually(t, func() bool {
		return read[stageTimers](t, server, "/timers?stage=sums").Windows.Commands == 5
	}, giveUp, time.Millisecond)
	got := awaitTimers(t, server, "sums", 2)
	require.Positive(t, got.Windows.OldestNs)
	require.True(t, got.Windows.Whole)
	require.Nil(t, got.Windows.Watermark)
	require.Equal(t, "close a window", got.Ticks[0].What)
	require.InDelta(t, time.Hour, got.Windows.OldestNs+got.Ticks[0].InNs, float64(time.Minute), "the oldest one is closed first, after an hour")

	clock := awaitTimers(t, server, "hourly", 1)
	require.Nil(t, clock.Windows)
	require.Equal(t, "submit a command of feed clock", clock.Ticks[0].What)
	require.LessOrEqual(t, clock.Ticks[0].InNs, time.Hour)
	awaitTimers(t, server, "report", 0)

	recorded := httptest.NewServer(dashboard.Open(read[api.Recording](t, server, "/recording")))
	defer recorded.Close()
	require.Nil(t, read[stageTimers](t, recorded, "/timers?stage=sums").Windows)
}

// openWindows looks at stages with windows and timers in the browser.
func openWindows(t *testing.T, _ *works, b *tab) {
	p, submit := newTeller(t)
	server := newDashboard(t, p, dashboard.Options{})
	for n := range 1234 {
		submit(n)
	}
	const section = `document.querySelector('[aria-label="Windows and timers"]')`
	b.navigate(server.URL + "/#/stage?name=sums")
	b.until(section + "?.textContent.includes('commands in them1,234')")
	text := eval[string](b, section+".textContent")
	require.Contains(t, text, "open windows2")
	require.Contains(t, text, "the oldest, for")
	require.Regexp(t, `in (1|59\.\d|60) (h|min): close a window`, text)
	eval[any](b, "void "+section+".scrollIntoView()")
	looksWell(b, "stage with open windows")
	b.show("#/stage?name=hourly")
	b.until(section + "?.textContent.includes(': submit a command of feed clock')")
	b.show("#/stage?name=report")
	b.until(fmt.Sprintf("document.querySelector('h1')?.textContent === 'report' && !%s", section))
	fleet := serve(t, newHerdOf(t, dashboard.Options{}, map[string]*pipeline.Pipeline{"a": p}).dashboard(t, dashboard.Options{}))
	b.navigate(fleet.URL + "/#/stage?name=sums")
	b.until(section + "?.textContent.includes('commands in them1,234')")
	b.until(section + "?.textContent.includes(': close a window, in a')")
	b.navigate(b.server.URL)
}
