package event_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window/event"
)

// table is what a sink has written: the last result of each key and start. A process that is killed writes no more.
type table struct {
	mu   sync.Mutex
	life int
	rows map[string]result
}

func (t *table) put(life int, w result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.Early = false; life == t.life {
		t.rows[fmt.Sprint(w.Key, w.Start.Unix())] = w
	}
}

// kill takes the image of a checkpoint at an instant.
func (t *table) kill(file string) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.life++
	image, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return image
}

// process runs a pipeline over commands until so many have been submitted, and kills it then; or to the end.
func process(t *testing.T, of *stage.Flow[hit, result], hits []hit, until int, file string, to *table) (done bool) {
	t.Helper()
	life := to.life
	end := stage.Sink("end", func(_ context.Context, w result) error {
		to.put(life, w)
		return nil
	}, stage.Workers(1, 1))
	reached := make(chan struct{})
	src := source.From(func(ctx context.Context, from int64, submit func(hit, int64) error) error {
		for n := from; n < int64(len(hits)); n++ {
			if n == int64(until) {
				close(reached)
				<-ctx.Done()
				return nil
			}
			if err := submit(hits[n], n+1); err != nil {
				return err
			}
		}
		return nil
	})
	p, err := pipeline.New("test", of.To(end), pipeline.Feed("hits", of.Stage, src), pipeline.Checkpoint(file, 10*time.Millisecond),
		pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	select {
	case err := <-ended:
		require.NoError(t, err)
		return true
	case <-reached:
	}
	time.Sleep(rand.N(25 * time.Millisecond)) //nolint:gosec // a checkpoint may be saved, or not
	image := to.kill(file)
	gone, abort := context.WithCancel(t.Context())
	abort()
	_ = p.Stop(gone)
	<-ended
	if image == nil {
		require.NoError(t, os.RemoveAll(file))
	} else {
		require.NoError(t, os.WriteFile(file, image, 0o600))
	}
	return false
}

func TestResultsAreTheSameWhenProcessesAreKilled(t *testing.T) {
	for form, flow := range forms {
		for name, mark := range map[string]event.Watermark[hit]{
			"one watermark": {}, "of sources": {Source: hit.host}, "of keys": {ByKey: true}, "with a lateness": {Lateness: 100 * s},
		} {
			t.Run(form+", "+name, func(t *testing.T) {
				t.Parallel()
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // not for secrets
				hits := make([]hit, 2000)
				for i := range hits {
					hits[i] = hit{1000 + i - random.IntN(50), string(rune('a' + random.IntN(5))), random.IntN(10)}
				}
				mark.Disorder = 50 * s
				to, file := &table{rows: map[string]result{}}, filepath.Join(t.TempDir(), "checkpoint")
				for until := 0; until >= 0; {
					until += 1 + random.IntN(700)
					if process(t, flow(mark), hits, until, file, to) {
						until = -1
					}
				}
				rows := slices.SortedFunc(maps.Values(to.rows), byPlace)
				for i := range rows {
					rows[i].Pane = 0
				}
				require.Equal(t, loop(form, hits), rows)
			})
		}
	}
}

func TestACheckpointOfOtherWindowsIsRefused(t *testing.T) {
	to, file := &table{rows: map[string]result{}}, filepath.Join(t.TempDir(), "checkpoint")
	hits := []hit{{0, "a", 1}, {1, "a", 1}}
	for process(t, tumbling(event.Watermark[hit]{}), hits, 1, file, to); ; {
		if _, err := os.Stat(file); err == nil {
			break
		}
		process(t, tumbling(event.Watermark[hit]{}), hits, 1, file, to)
	}
	of := sliding(event.Watermark[hit]{})
	p, err := pipeline.New("test", of.To(stage.Sink("end", func(context.Context, result) error { return nil })),
		pipeline.Feed("hits", of.Stage, source.Slice(hits)), pipeline.Checkpoint(file, time.Second), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	err = p.Start(t.Context())
	require.ErrorContains(t, err, "event.Tumbling(1m0s) of int by string, and the stage has event.Sliding(1m0s, 20s)")
	require.ErrorContains(t, err, `stage "bytes windows"`)
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	late := stage.Sink("late", func(context.Context, hit) error { return nil })
	of := func(f *stage.Flow[hit, result]) pipeline.Part {
		return f.To(stage.Sink("end", func(context.Context, result) error { return nil }))
	}
	for name, c := range map[string]struct {
		part pipeline.Part
		want string
	}{
		"no functions":     {of(event.Tumbling("w", s, event.Fold[string, hit, int]{}, event.Watermark[hit]{})), "event.Sum: the function for the time is nil"},
		"no unit":          {of(event.Tumbling("w", 60, bytesOf(), event.Watermark[hit]{})), "event.Tumbling(60ns): must be at least 1µs"},
		"too long":         {of(event.Tumbling("w", 1<<62, bytesOf(), event.Watermark[hit]{})), "must be at most"},
		"no slide":         {of(event.Sliding("w", s, s, bytesOf(), event.Watermark[hit]{})), "event.Sliding(1s, 1s): the second time"},
		"too many windows": {of(event.Sliding("w", time.Hour, s, bytesOf(), event.Watermark[hit]{})), "more than 1000 windows"},
		"no merge":         {of(event.Session("w", s, bytesOf(), nil, event.Watermark[hit]{})), "the function that merges is nil"},
		"two watermarks":   {of(tumbling(event.Watermark[hit]{ByKey: true, Source: hit.host})), "Watermark.Source: is given with ByKey"},
		"negative":         {of(tumbling(event.Watermark[hit]{Disorder: -s})), "Watermark.Disorder(-1s): must not be negative"},
		"held":             {of(tumbling(event.Watermark[hit]{Held: -1})), "Watermark.Held(-1): must not be negative"},
		"nil target":       {of(tumbling(event.Watermark[hit]{Late: (*stage.Stage[hit])(nil)})), "Watermark.Late: is nil"},
		"late elsewhere":   {of(tumbling(event.Watermark[hit]{Late: late})), `"late"`},
		"leads nowhere":    {tumbling(event.Watermark[hit]{}), "leads nowhere"},
		"workers":          {of(event.Tumbling("w", s, bytesOf(), event.Watermark[hit]{}, stage.Workers(2, 2))), "cannot be set, since a window sets it itself"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New("test", c.part)
			require.ErrorContains(t, err, c.want)
		})
	}
}
