package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// readOnly makes a file that this process has open one that cannot be written to, as a full disk does.
func readOnly(t *testing.T, file string) {
	t.Helper()
	bad, err := os.Open(file)
	require.NoError(t, err)
	defer bad.Close()
	for fd := range 1000 {
		if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && name == file && fd != int(bad.Fd()) {
			require.NoError(t, syscall.Dup3(int(bad.Fd()), fd, syscall.O_CLOEXEC))
			return
		}
	}
	t.Fatal("the file is not open")
}

func TestAStopReportsLettersThatAreNotOnTheDisk(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	s := stage.Sink("s", func(context.Context, int) error { return errNo })
	p := start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}), pipeline.Logger(slog.New(slog.DiscardHandler)))
	readOnly(t, filepath.Join(dir, "failures"))
	for i := range 3 {
		require.NoError(t, s.Submit(t.Context(), i))
	}
	err = p.Stop(soon(t))
	var stopped *pipeline.StopError
	require.ErrorAs(t, err, &stopped)
	require.Equal(t, 3, stopped.Unwritten)
	require.Empty(t, stopped.Left)
	require.ErrorContains(t, err, "3 letters were not written to their files")
	require.ErrorAs(t, err, new(syscall.Errno))
}
