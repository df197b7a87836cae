package window_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// letter is the key of a text such as "a1".
func letter(text string) string { return text[:1] }

func same(_ context.Context, text string) (string, error) { return text, nil }

// resumed is a program that is killed and started again, on one clock.
type resumed struct {
	t     *testing.T
	file  string
	began time.Time
	make  func() *stage.Flow[string, string]
	feed  chan string // what the source submits next

	mu   sync.Mutex
	life int // of the process that is alive
	got  []string
	p    *pipeline.Pipeline
}

// texts returns what the sinks of all processes have had.
func (r *resumed) texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// start starts a process. The words that earlier ones had are behind the position of the source.
func (r *resumed) start() {
	r.t.Helper()
	r.life++
	life := r.life
	first := r.make()
	end := stage.Sink("end", func(_ context.Context, text string) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if life == r.life {
			after := time.Since(r.began).Round(10 * time.Millisecond) // a save holds words up
			r.got = append(r.got, fmt.Sprintf("%v %s", after, text))
		}
		return nil
	})
	words := func(ctx context.Context, submit func(string, int64) error) error {
		for n := source.Position(ctx); ; n++ {
			select {
			case text := <-r.feed:
				if err := submit(text, n+1); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	}
	from := source.From(func(ctx context.Context, _ int64, submit func(string, int64) error) error { return words(ctx, submit) })
	p, err := pipeline.New("test", first.To(end), pipeline.Feed("words", first, from), pipeline.Checkpoint(r.file, time.Second),
		pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(r.t, err)
	require.NoError(r.t, p.Start(r.t.Context()))
	r.p = p
}

// at waits until so much time has passed since the test began, and submits words.
func (r *resumed) at(after time.Duration, texts ...string) {
	time.Sleep(time.Until(r.began.Add(after)))
	for _, text := range texts {
		r.feed <- text
	}
}

// kill ends the process at an instant. What it does while it ends, is not recorded, and the file is as it was.
func (r *resumed) kill() {
	r.t.Helper()
	r.mu.Lock()
	r.life++
	r.mu.Unlock()
	image, err := os.ReadFile(r.file)
	require.NoError(r.t, err)
	gone, cancel := context.WithCancel(r.t.Context())
	cancel()
	_ = r.p.Stop(gone)
	<-r.p.Done()
	require.NoError(r.t, os.WriteFile(r.file, image, 0o600))
}

func TestTimesGoOnWhereACheckpointHasThem(t *testing.T) {
	const s = time.Second
	group := func(_ context.Context, g window.Window[string, []string]) (string, error) {
		return fmt.Sprintf("%s %s", g.Why, strings.Join(g.Value, " ")), nil
	}
	by := func(b window.Bounds[string]) func() *stage.Flow[string, string] {
		return func() *stage.Flow[string, string] {
			return stage.Chain(window.By("timed", letter, b), stage.Map("text", group))
		}
	}
	debounce := func(quiet, limit time.Duration) func() *stage.Flow[string, string] {
		return func() *stage.Flow[string, string] {
			return stage.Chain(window.Debounce("timed", letter, quiet, limit), stage.Map("text", same))
		}
	}
	throttle := func() *stage.Flow[string, string] {
		return stage.Chain(window.Throttle("timed", letter, 20*s), stage.Map("text", same))
	}
	sum := func() *stage.Flow[string, string] {
		return stage.Chain(
			window.Aggregate("timed", letter, func(all, text string) string { return all + text + " " }, window.Bounds[string]{Time: 20 * s}),
			stage.Map("text", func(_ context.Context, w window.Window[string, string]) (string, error) {
				return fmt.Sprintf("%s %d %s", w.Why, w.Count, strings.TrimSpace(w.Value)), nil
			}))
	}
	// a1, a2 and b1 come at 1 s, the process is killed at 5 s, the next one starts at 8 s or 60 s, a3 comes 2 s later.
	for name, row := range map[string]struct {
		make        func() *stage.Flow[string, string]
		early, late []string // for a short and a long time without a process
	}{
		"a time": {
			by(window.Bounds[string]{Time: 20 * s}),
			[]string{"21s due a1 a2 a3", "21s due b1"},
			[]string{"1m0s due a1 a2", "1m0s due b1", "1m22s due a3"},
		},
		"a period": {
			by(window.Bounds[string]{Every: 30 * s}),
			[]string{"30s due a1 a2 a3", "30s due b1"},
			[]string{"1m0s due a1 a2", "1m0s due b1", "1m30s due a3"},
		},
		"a pause": {
			by(window.Bounds[string]{Idle: 20 * s}),
			[]string{"21s due b1", "30s due a1 a2 a3"},
			[]string{"1m0s due a1 a2", "1m0s due b1", "1m22s due a3"},
		},
		"a sum": {
			sum,
			[]string{"21s due 3 a1 a2 a3", "21s due 1 b1"},
			[]string{"1m0s due 2 a1 a2", "1m0s due 1 b1", "1m22s due 1 a3"},
		},
		"debounce": {
			debounce(20*s, 0),
			[]string{"21s b1", "30s a3"},
			[]string{"1m0s a2", "1m0s b1", "1m22s a3"},
		},
		"debounce with a limit": {
			debounce(20*s, 25*s),
			[]string{"21s b1", "26s a3"},
			[]string{"1m0s a2", "1m0s b1", "1m22s a3"},
		},
		// The first words are passed on at once, before the kill. A key of which no more came keeps its period.
		"throttle": {
			throttle,
			[]string{"1s a1", "1s b1", "21s a3"},
			[]string{"1s a1", "1s b1", "1m0s a2", "1m20s a3"},
		},
	} {
		for pause, want := range map[time.Duration][]string{8 * s: row.early, 60 * s: row.late} {
			t.Run(fmt.Sprint(name, " ", pause), func(t *testing.T) {
				dir := t.TempDir()
				virtual(t, func(t *testing.T) {
					// The clock of a test begins at a full minute.
					r := &resumed{t: t, file: filepath.Join(dir, "state"), began: time.Now(), make: row.make, feed: make(chan string)}
					r.start()
					r.at(s, "a1", "a2", "b1")
					time.Sleep(4 * s)
					r.kill()
					r.at(pause)
					r.start()
					r.at(pause+2*s, "a3")
					time.Sleep(2 * time.Minute)
					assert.ElementsMatch(t, want, r.texts())
					require.EqualValues(t, 4, r.p.Snapshot().Feeds[0].Checkpoint)
					require.NoError(t, r.p.Stop(t.Context()))
				})
			})
		}
	}
}

func TestAThrottleKeepsThePeriodOfAKeyOfWhichNoMoreCame(t *testing.T) {
	dir := t.TempDir()
	virtual(t, func(t *testing.T) {
		r := &resumed{t: t, file: filepath.Join(dir, "state"), began: time.Now(), feed: make(chan string), make: func() *stage.Flow[string, string] {
			return stage.Chain(window.Throttle("timed", letter, 20*time.Second),
				stage.Map("text", same))
		}}
		r.start()
		r.at(time.Second, "a1")
		time.Sleep(4 * time.Second)
		r.kill()
		r.start()
		r.at(7*time.Second, "a2", "b1")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"1s a1", "7s b1", "21s a2"}, r.texts())
		require.NoError(t, r.p.Stop(t.Context()))
	})
}
