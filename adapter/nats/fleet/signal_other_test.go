//go:build !unix

package fleet_test

import (
	"os"
	"testing"
)

// stopProcess ends the test here: what comes before needs no signals.
func stopProcess(t *testing.T, _ *os.Process) {
	t.Helper()
	t.Skip("this system cannot have a process stand still")
}

func continueProcess(*testing.T, *os.Process) {}
