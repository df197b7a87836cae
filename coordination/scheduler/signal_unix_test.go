//go:build unix

package scheduler_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

func TestASignalIsAnEvent(t *testing.T) {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	var got os.Signal
	s.Register(scheduler.Signal(syscall.SIGUSR1), func(_ coroutine.Context, ev any) {
		got = ev.(os.Signal)
		s.Stop()
	})
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1)) // before the source was started
	assert.NoError(t, s.Loop())
	assert.Equal(t, syscall.SIGUSR1, got)
}
