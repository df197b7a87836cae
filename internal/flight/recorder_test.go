package flight

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/pipeline/flight"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// window is a window with a text.
type window struct {
	begun, ended int
	refuses, err error
}

func (w *window) Start() error { w.begun++; return w.refuses }
func (w *window) Stop()        { w.ended++ }
func (w *window) WriteTo(to io.Writer) (int64, error) {
	n, _ := io.WriteString(to, "a trace")
	return int64(n), w.err
}

var errFull = errors.New("disk full")

// bench is a recorder with a window, and what it has logged.
type bench struct {
	*Recorder
	*window

	log bytes.Buffer
	dir string
	mu  sync.Mutex // guards now
	now map[string]*times
}

type times struct{ wait, handler histogram.Histogram }

func newBench(t *testing.T, set flight.Options) *bench {
	t.Helper()
	b := &bench{window: &window{}, dir: filepath.Join(t.TempDir(), "new [dir]"), now: map[string]*times{}}
	before := NewWindow
	NewWindow = func(time.Duration, int) Window { return b.window }
	t.Cleanup(func() { NewWindow = before })
	set.Dir = b.dir
	b.Recorder = New(set, slog.New(slog.NewTextHandler(&b.log, nil)), b.times)
	return b
}

func (b *bench) times() (all []Times) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, t := range b.now {
		all = append(all, Times{name, t.wait.Durations(), t.handler.Durations()})
	}
	return all
}

func (b *bench) handled(name string, n uint64, wait, handler time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.now[name]
	if t == nil {
		t = &times{}
		b.now[name] = t
	}
	t.wait.Record(wait, n)
	t.handler.Record(handler, n)
}

func (b *bench) files(t *testing.T) (names []string) {
	t.Helper()
	all, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	for _, f := range all {
		names = append(names, f.Name())
	}
	return names
}

func TestAStallWritesAFileAndALineThatNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, flight.Options{})
		require.NoError(t, b.Recorder.Start())
		require.Empty(t, b.files(t))
		b.Stalled([]string{"a", "b"})
		synctest.Wait()
		names := b.files(t)
		require.Len(t, names, 1)
		require.Regexp(t, `^flight-20000101T000000\.000-\d+\.trace$`, names[0])
		text, err := os.ReadFile(filepath.Join(b.dir, names[0]))
		require.NoError(t, err)
		require.Equal(t, "a trace", string(text))
		require.Contains(t, b.log.String(), names[0])
		require.Contains(t, b.log.String(), `why="stalled: a, b" bytes=7`)
		b.Recorder.Stop()
		b.Recorder.Stop()
		require.Equal(t, 1, b.ended)
	})
}

func TestThereIsAPauseBetweenTwoFilesAndTheOldestOnesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, flight.Options{Pause: time.Minute, Files: 3})
		require.NoError(t, b.Recorder.Start())
		other := filepath.Join(b.dir, "notes.trace")
		require.NoError(t, os.WriteFile(other, nil, 0o600))
		var last []string
		for i := range 100 { // ten minutes
			b.Stalled([]string{"a"})
			synctest.Wait()
			if names := b.files(t); i%10 == 0 {
				require.Len(t, names, min(i/10+1, 3)+1)
				require.NotEqual(t, last, names)
				last = names
			} else {
				require.Equal(t, last, names, "it is too soon")
			}
			time.Sleep(6 * time.Second)
		}
		require.FileExists(t, other, "it is not the recorder's")
		b.Recorder.Stop()
	})
}

func TestAFileThatCannotBeWrittenIsLoggedAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, flight.Options{})
		b.window.err = errFull
		require.NoError(t, b.Recorder.Start())
		b.Stalled([]string{"a"})
		synctest.Wait()
		require.Empty(t, b.files(t))
		require.Contains(t, b.log.String(), "no trace was written")
		require.Contains(t, b.log.String(), "disk full")
		b.Recorder.Stop()
	})
}

func TestARecorderThatCannotStartSaysWhy(t *testing.T) {
	b := newBench(t, flight.Options{})
	b.refuses = errors.New("flight recorder already enabled")
	err := b.Recorder.Start()
	require.ErrorIs(t, err, flight.ErrTaken)
	require.EqualError(t, err, "flight recorder: the process has a flight recorder already: flight recorder already enabled")
	b.Recorder.Stop()
	require.Zero(t, b.ended, "it is not this one that runs")

	b = newBench(t, flight.Options{})
	require.NoError(t, os.WriteFile(b.dir, nil, 0o600))
	require.ErrorContains(t, b.Recorder.Start(), "not a directory")
	require.Zero(t, b.begun)
	b.Recorder.Stop()
}

func TestWithoutOptionsThereIsNoRecorder(t *testing.T) {
	var none *Recorder
	require.NoError(t, none.Start())
	none.Stop()
}

// The last ten seconds count, and not what was before.
func TestAMissedObjectiveWritesAFile(t *testing.T) {
	const within = 100 * time.Millisecond
	for name, test := range map[string]struct {
		before, now func(b *bench)
		missed      string
	}{
		"all are in time":                  {now: func(b *bench) { b.handled("a", 1000, 10*time.Millisecond, 10*time.Millisecond) }},
		"one in a thousand is late":        {now: func(b *bench) { b.handled("a", 999, 0, 0); b.handled("a", 1, 0, time.Second) }},
		"two of a hundred are late":        {now: func(b *bench) { b.handled("a", 98, 0, 0); b.handled("a", 2, 0, time.Second) }, missed: "a takes "},
		"they wait for too long":           {now: func(b *bench) { b.handled("a", 100, time.Second, 0) }, missed: "a takes "},
		"both together are too long":       {now: func(b *bench) { b.handled("a", 100, 60*time.Millisecond, 60*time.Millisecond) }, missed: "a takes "},
		"they are too few to say":          {now: func(b *bench) { b.handled("a", 99, time.Second, time.Second) }},
		"they were late before":            {before: func(b *bench) { b.handled("a", 1000, time.Second, 0) }, now: func(b *bench) { b.handled("a", 1000, 0, 0) }},
		"they were in time for an hour":    {before: func(b *bench) { b.handled("a", 1e6, 0, 0) }, now: func(b *bench) { b.handled("a", 100, 0, time.Second) }, missed: "a takes "},
		"a stage without an objective":     {now: func(b *bench) { b.handled("b", 1000, time.Second, 0) }},
		"a stage that has just been added": {before: func(b *bench) { delete(b.now, "a") }, now: func(b *bench) { b.handled("a", 1000, time.Second, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, flight.Options{Within: map[string]time.Duration{"a": within}})
				b.handled("a", 0, 0, 0)
				if test.before != nil {
					test.before(b)
				}
				require.NoError(t, b.Recorder.Start())
				synctest.Wait()
				test.now(b)
				time.Sleep(period + time.Second)
				synctest.Wait()
				if test.missed == "" {
					require.Empty(t, b.files(t), b.log.String())
				} else {
					require.Len(t, b.files(t), 1)
					require.Contains(t, b.log.String(), test.missed)
					require.Contains(t, b.log.String(), "and its objective is 100ms")
				}
				b.Recorder.Stop()
			})
		})
	}
}
