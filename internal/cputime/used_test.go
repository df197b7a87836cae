package cputime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/cputime"
)

func TestTheUsedTimeGrowsWhileTheProcessComputes(t *testing.T) {
	before, known := cputime.Used()
	if !known {
		t.Skip("this system does not say")
	}
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		if now, _ := cputime.Used(); now > before+10*time.Millisecond {
			return
		}
	}
	require.Fail(t, "a minute of computing has used no CPU time")
}
