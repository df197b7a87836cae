package stage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheNextWorkerWaitsTwiceAsLongAsTheLast(t *testing.T) {
	p := RestartPolicy{Backoff: 10 * time.Millisecond, Max: 100 * time.Millisecond}.orDefault()
	for beyond, longest := range map[int]time.Duration{
		1: 10 * time.Millisecond, 2: 20 * time.Millisecond, 3: 40 * time.Millisecond,
		4: 80 * time.Millisecond, 5: 100 * time.Millisecond, 1000: 100 * time.Millisecond,
	} {
		for range 100 { // a fifth is random
			pause := p.pause(beyond)
			require.LessOrEqual(t, pause, longest, beyond)
			require.GreaterOrEqual(t, pause, longest*4/5, beyond)
		}
	}
}

func TestARestartPolicyOfNothingIsTheDefaultAndOneBelowZeroEnduresNothing(t *testing.T) {
	require.Equal(t, RestartPolicy{Limit: 15, Backoff: time.Millisecond, Max: time.Second, Within: time.Minute},
		RestartPolicy{}.orDefault())
	require.Zero(t, RestartPolicy{Limit: -1}.orDefault().Limit)
	require.Equal(t, time.Hour, RestartPolicy{Backoff: time.Hour}.orDefault().Max)
}
