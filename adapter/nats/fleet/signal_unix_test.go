//go:build unix

package fleet_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func stopProcess(t *testing.T, p *os.Process) {
	t.Helper()
	require.NoError(t, p.Signal(syscall.SIGSTOP))
}

func continueProcess(t *testing.T, p *os.Process) {
	t.Helper()
	require.NoError(t, p.Signal(syscall.SIGCONT))
}
