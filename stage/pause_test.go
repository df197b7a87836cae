package stage

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheNextWorkerWaitsTwiceAsLongAsTheLast(t *testing.T) {
	for name, pause := range map[string]func(int) time.Duration{
		"crashes":      RestartPolicy{Backoff: 10 * time.Millisecond, Max: 100 * time.Millisecond}.pauses().Crash,
		"starts":       RestartPolicy{Backoff: 10 * time.Millisecond, Max: 100 * time.Millisecond}.pauses().Start,
		"Max left out": RestartPolicy{Backoff: 10 * time.Millisecond}.pauses().Crash,
	} {
		for beyond, longest := range map[int]time.Duration{
			1: 10 * time.Millisecond, 2: 20 * time.Millisecond, 3: 40 * time.Millisecond,
			4: 80 * time.Millisecond, 5: 100 * time.Millisecond, 1000: 100 * time.Millisecond,
		} {
			for range 100 { // a fifth is random
				pause := pause(beyond)
				require.LessOrEqual(t, pause, longest, "%s %d", name, beyond)
				require.GreaterOrEqual(t, pause, longest*4/5, "%s %d", name, beyond)
			}
		}
	}
}

func TestARestartPolicyOfNothingEnduresAnyCrashesAndFifteenStarts(t *testing.T) {
	for limit, want := range map[int][2]int{0: {math.MaxInt32, 15}, -1: {0, 0}, 7: {7, 7}, math.MaxInt: {math.MaxInt32, math.MaxInt32}} {
		crashes, starts := RestartPolicy{Limit: limit}.limits()
		require.Equal(t, want, [2]int{crashes, starts}, limit)
	}
}

func TestOnlyPausesWithoutAMaxOfTheUserAreBoundByTheDelayOfOthers(t *testing.T) {
	require.Equal(t, 100*time.Millisecond, RestartPolicy{}.pauses().Delay)
	require.Equal(t, 100*time.Millisecond, RestartPolicy{Limit: 3, Within: time.Hour}.pauses().Delay)
	require.Zero(t, RestartPolicy{Max: time.Hour}.pauses().Delay)
	require.Equal(t, time.Hour, RestartPolicy{Backoff: 2 * time.Hour, Max: time.Hour}.pauses().Start(9).Round(time.Hour))
	require.Equal(t, 2*time.Hour, RestartPolicy{Backoff: 2 * time.Hour}.pauses().Start(9).Round(time.Hour))
}
