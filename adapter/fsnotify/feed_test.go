package fsnotify_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	notify "github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/fsnotify"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestChangesOfFilesFeedAStageUntilThePipelineStops(t *testing.T) {
	dir := t.TempDir()
	src, err := fsnotify.Watch(dir)
	require.NoError(t, err)
	seen := make(chan notify.Event, 100)
	index := stage.Sink("index", func(_ context.Context, change notify.Event) error { seen <- change; return nil })
	p, err := pipeline.New("index", pipeline.Feed("changes", index, src.Feed))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	name := filepath.Join(dir, "list")
	require.NoError(t, os.WriteFile(name, []byte("one"), 0o600))
	require.Equal(t, name, (<-seen).Name)
	cancel()
	require.NoError(t, <-ran)
	require.NoError(t, src.Close())
}

func TestAWatchThatIsClosedIsAnExhaustedFeed(t *testing.T) {
	src, err := fsnotify.Watch(t.TempDir())
	require.NoError(t, err)
	index := stage.Sink("index", func(context.Context, notify.Event) error { return nil })
	p, err := pipeline.New("index", pipeline.Feed("changes", index, src.Feed))
	require.NoError(t, err)
	require.NoError(t, src.Close())
	require.NoError(t, p.Run(t.Context()))
	require.True(t, p.Ending().Exhausted)
}
