package pipeline_test

import (
	"log/slog"
	"os"
	"path/filepath"
	runtimetrace "runtime/trace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	recorder "github.com/golda-dev/golda/internal/flight"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/flight"
	"github.com/golda-dev/golda/stage"
)

// begun is the recorder of the runtime, which runs already.
type begun struct{ *runtimetrace.FlightRecorder }

func (begun) Start() error { return nil }
func (begun) Stop()        {}

// A stage that stalls leaves a trace of the runtime, which go tool trace can read, with the visit in which the stage is.
func TestAStallLeavesAnExecutionTrace(t *testing.T) {
	if runtimetrace.IsEnabled() {
		t.Skip("the tests are traced")
	}
	window := begun{runtimetrace.NewFlightRecorder(runtimetrace.FlightRecorderConfig{})}
	require.NoError(t, window.FlightRecorder.Start()) // outside of the bubble, where its goroutine does not keep the time from moving
	defer window.FlightRecorder.Stop()
	before := recorder.NewWindow
	recorder.NewWindow = func(time.Duration, int) recorder.Window { return window }
	defer func() { recorder.NewWindow = before }()

	dir := t.TempDir()
	log := &stallLog{}
	synctest.Test(t, func(t *testing.T) {
		hung, release := hungStage("hung")
		first := stage.New("first", fn(echo[int]))
		p := startAlone(t, first, hung, pipeline.Logger(slog.New(slog.NewTextHandler(log, nil))), pipeline.Flight(flight.Options{Dir: dir}))
		for n := range 3 {
			submit(t, first, n)
			submit(t, hung, n)
		}
		time.Sleep(50 * time.Second)
		require.Empty(t, log.lines())
		require.Empty(t, traces(t, dir))
		time.Sleep(time.Hour)
		require.Len(t, log.lines(), 1)
		release()
		require.NoError(t, p.Stop(t.Context()))
	})
	files := traces(t, dir)
	require.Len(t, files, 1, log.all.String())
	require.Contains(t, log.all.String(), "file="+files[0])
	require.Contains(t, log.all.String(), `why="stalled: hung"`)
	found := regions(t, files[0])
	require.Positive(t, found["first"], found)
	require.Positive(t, found["hung"], found)
}

func traces(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	return all
}

// The recorder of the runtime runs as long as the pipeline, and there is one in a process.
func TestAProcessHasOneFlightRecorder(t *testing.T) {
	if runtimetrace.IsEnabled() {
		t.Skip("the tests are traced")
	}
	dir := filepath.Join(t.TempDir(), "traces")
	flights := func() pipeline.Part { return pipeline.Flight(flight.Options{Dir: dir}) }
	p := start(t, stage.New("s", fn(echo[int])), flights())
	require.True(t, runtimetrace.IsEnabled())
	other, err := pipeline.New("other", stage.New("s", fn(echo[int])), flights(), quiet)
	require.NoError(t, err)
	err = other.Start(soon(t))
	require.ErrorIs(t, err, flight.ErrTaken)
	require.ErrorContains(t, err, `pipeline "other": start: flight recorder: the process has a flight recorder already`)
	require.NoError(t, p.Stop(soon(t)))
	require.False(t, runtimetrace.IsEnabled())
	p = start(t, stage.New("s", fn(echo[int])), flights())
	require.NoError(t, p.Stop(soon(t)))
	require.False(t, runtimetrace.IsEnabled())
}

func TestAPipelineThatCannotStartLeavesNoFlightRecorder(t *testing.T) {
	if runtimetrace.IsEnabled() {
		t.Skip("the tests are traced")
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	p, err := pipeline.New("test", stage.New("s", fn(echo[int])), pipeline.Flight(flight.Options{Dir: file}), quiet)
	require.NoError(t, err)
	require.ErrorContains(t, p.Start(soon(t)), "not a directory")
	require.False(t, runtimetrace.IsEnabled())

	s := stage.New("s", &unstartable{})
	p, err = pipeline.New("test", s, pipeline.Flight(flight.Options{Dir: t.TempDir()}), quiet)
	require.NoError(t, err)
	require.Error(t, p.Start(soon(t)))
	require.False(t, runtimetrace.IsEnabled())
}

func TestFaultsOfAFlightRecorderAreFoundBeforeTheStart(t *testing.T) {
	_, err := pipeline.New("test", stage.New("s", fn(echo[int])), pipeline.Flight(flight.Options{Bytes: -1, Within: map[string]time.Duration{"s": 0, "t": 1}}),
		pipeline.Flight(flight.Options{Bytes: -1, Within: map[string]time.Duration{"s": 0, "t": 1}}))
	for _, text := range []string{
		"Flight: Dir is empty",
		"Flight: Age: 0s, Bytes: -1, Files: 0, Pause: 0s must be 0",
		`Flight: Within: 0s for stage "s" must be positive`,
		`Flight: Within has an objective for stage "t", which is not part of the pipeline`,
		"Flight: is given twice",
	} {
		require.ErrorContains(t, err, text)
	}
}
