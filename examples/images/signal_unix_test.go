//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASignalThatComesAtOnceIsHandled(t *testing.T) {
	signals := caught()
	defer signal.Stop(signals)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM)) // without the handler this would end the process
	assert.Equal(t, syscall.SIGTERM, <-signals)
}
