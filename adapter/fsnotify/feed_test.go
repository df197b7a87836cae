package fsnotify_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

func TestAPathThatIsRemovedIsAnErrorUntilItIsThereAgain(t *testing.T) {
	for name, remove := range map[string]func(string) error{
		"removed": os.RemoveAll,
		"renamed": func(path string) error { return os.Rename(path, path+".old") },
	} {
		for _, isDir := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, directory %v", name, isDir), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "watched")
				create := func() {
					if isDir {
						require.NoError(t, os.Mkdir(path, 0o700))
					} else {
						require.NoError(t, os.WriteFile(path, []byte("one"), 0o600))
					}
				}
				create()
				src, err := fsnotify.Watch(path)
				require.NoError(t, err)
				defer src.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				gone, stop := false, errors.New("stop")
				submit := func(change notify.Event) error {
					switch isIt := change.Name == path; {
					case isIt && (change.Has(notify.Remove) || change.Has(notify.Rename)):
						gone = true
					case isIt && change.Has(notify.Create) && isDir:
						return os.WriteFile(filepath.Join(path, "file"), []byte("two"), 0o600)
					case isIt && change.Has(notify.Create):
						return os.WriteFile(path, []byte("two"), 0o600)
					case !isIt || change.Has(notify.Write):
						return stop
					}
					return nil
				}
				require.NoError(t, remove(path))
				for range 2 {
					err = src.Feed(ctx, submit)
					require.ErrorIs(t, err, fs.ErrNotExist)
					require.ErrorContains(t, err, path+" was removed or renamed")
				}
				create()
				require.ErrorIs(t, src.Feed(ctx, submit), stop, "it is watched again")
				require.True(t, gone)
			})
		}
	}
}

// An editor writes another file, and gives it the name of the watched one.
func TestAFileThatIsReplacedIsWatchedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "watched")
	require.NoError(t, os.WriteFile(path, []byte("one"), 0o600))
	src, err := fsnotify.Watch(path)
	require.NoError(t, err)
	defer src.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, os.WriteFile(path+".new", []byte("two"), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	stop := errors.New("stop")
	require.ErrorIs(t, src.Feed(ctx, func(change notify.Event) error {
		switch {
		case change.Has(notify.Create):
			return os.WriteFile(path, []byte("three"), 0o600)
		case change.Has(notify.Write):
			return stop
		}
		return nil
	}), stop)
}

func TestAFeedSaysThatItsDirectoryIsRemovedAndGoesOnWhenItIsThereAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "watched")
	require.NoError(t, os.Mkdir(dir, 0o700))
	src, err := fsnotify.Watch(dir)
	require.NoError(t, err)
	seen := make(chan notify.Event, 100)
	index := stage.Sink("index", func(_ context.Context, change notify.Event) error { seen <- change; return nil })
	p, err := pipeline.New("index", pipeline.Feed("changes", index, src.Feed))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, os.Remove(dir))
	require.True(t, (<-seen).Has(notify.Remove))
	require.Eventually(t, func() bool { return p.Snapshot().Feeds[0].Err != nil }, time.Minute, time.Millisecond)
	require.ErrorContains(t, p.Snapshot().Feeds[0].Err, dir)
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.Equal(t, notify.Event{Name: dir, Op: notify.Create}, <-seen)
	name := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.Equal(t, name, (<-seen).Name)
	require.NoError(t, p.Stop(t.Context()))
	require.NoError(t, src.Close())
}
