package lockfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/lockfile"
)

func TestALockIsHeldOnceUntilItIsClosed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	f, err := lockfile.Take(name)
	require.NoError(t, err)
	_, err = lockfile.Take(name)
	require.ErrorIs(t, err, lockfile.ErrLocked)
	require.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))
	require.NoError(t, f.Close())
	f, err = lockfile.Take(name)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestALinkIsNoLock(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "lock")
	require.NoError(t, os.Symlink(filepath.Join(dir, "elsewhere"), name))
	_, err := lockfile.Take(name)
	require.ErrorIs(t, err, lockfile.ErrReplaced)
	if runtime.GOOS != "windows" {
		require.NoFileExists(t, filepath.Join(dir, "elsewhere"))
	}
}

func TestADirectoryIsLockedThoughItsFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	f, err := lockfile.TakeDir(dir)
	require.NoError(t, err)
	if f == nil {
		t.Skip("this system has no locks of directories")
	}
	_, err = lockfile.TakeDir(dir)
	require.ErrorIs(t, err, lockfile.ErrLocked)
	require.NoError(t, f.Close())
	f, err = lockfile.TakeDir(dir)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
