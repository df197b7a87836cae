package fsnotify_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	notify "github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/fsnotify"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAChangeOfAFileIsAnEvent(t *testing.T) {
	dir := t.TempDir()
	src, err := fsnotify.Watch(dir)
	require.NoError(t, err)
	s := scheduler.New(scheduler.Config{Error: func(err error) { t.Error(err) }})
	defer s.Close()
	name := filepath.Join(dir, "list")
	s.Register(src, func(_ coroutine.Context, ev any) {
		change := ev.(notify.Event)
		assert.Equal(t, name, change.Name)
		if change.Has(notify.Remove) {
			s.Stop()
		}
	})
	require.NoError(t, os.WriteFile(name, []byte("one"), 0o600)) // before the loop runs: the change is not lost
	require.NoError(t, os.Remove(name))
	s.Register(scheduler.After(time.Minute), func(coroutine.Context, any) { t.Error("no event came"); s.Stop() })
	require.NoError(t, s.Loop())
}

func TestAClosedSourceEnds(t *testing.T) {
	src, err := fsnotify.Watch(t.TempDir())
	require.NoError(t, err)
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	s.Register(src, func(coroutine.Context, any) { t.Error("an event") })
	require.NoError(t, src.Close())
	require.NoError(t, src.Close())
	require.NoError(t, s.Loop())
}

func TestAMissingFileCannotBeWatched(t *testing.T) {
	_, err := fsnotify.Watch(t.TempDir(), filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, "none")
}

func TestARemovedDirectoryIsAnErrorAndIsWatchedWhenItIsThereAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "watched")
	require.NoError(t, os.Mkdir(dir, 0o700))
	src, err := fsnotify.Watch(dir)
	require.NoError(t, err)
	s := scheduler.New(scheduler.Config{Error: func(err error) { t.Error(err) }})
	defer s.Close()
	var errs, created int
	s.Register(src, func(_ coroutine.Context, ev any) {
		switch ev := ev.(type) {
		case error:
			assert.ErrorIs(t, ev, fs.ErrNotExist)
			assert.ErrorContains(t, ev, dir)
			errs++
			assert.NoError(t, os.Mkdir(dir, 0o700))
		case notify.Event:
			if ev.Has(notify.Create) {
				created++
				s.Stop()
			}
		}
	})
	require.NoError(t, os.Remove(dir))
	s.Register(scheduler.After(time.Minute), func(coroutine.Context, any) { t.Error("no event came"); s.Stop() })
	require.NoError(t, s.Loop())
	require.Equal(t, 1, errs)
	require.Equal(t, 1, created)
}

func TestAWatchOfNoPathOrAnEmptyOneIsAnError(t *testing.T) {
	_, err := fsnotify.Watch()
	require.EqualError(t, err, "fsnotify: Watch: there is no path")
	_, err = fsnotify.Watch(t.TempDir(), "")
	require.EqualError(t, err, "fsnotify: Watch: path 2 is empty")
}

func TestAPathWithAZeroByteIsRefused(t *testing.T) {
	_, err := fsnotify.Watch(t.TempDir() + "\x00b")
	require.ErrorContains(t, err, "path 1")
	require.ErrorContains(t, err, "has a zero byte")
}
