package forecast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAForecastIsOfTheRateWhileTheQueueWasNeverEmpty(t *testing.T) {
	var f Forecast
	now, left := int64(time.Hour), int64(0)
	ask := func(after time.Duration, gone int64, queued int) time.Duration {
		now, left = now+int64(after), left+gone
		return f.Wait(now, left, queued, time.Millisecond)
	}
	require.Equal(t, 100*time.Millisecond, ask(0, 0, 100), "by the time of handlers: nothing else is known")
	require.Equal(t, 100*time.Millisecond, ask(time.Second, 7, 100), "so few commands may be one batch")
	require.Equal(t, 20*time.Second, ask(time.Second, 3, 100), "ten in two seconds")
	require.Equal(t, 10*time.Second, ask(time.Second, 20, 100), "thirty in three seconds")
	require.Equal(t, 5*time.Second, ask(0, 30, 100), "sixty in three seconds; the mark is moved")
	require.Equal(t, 5*time.Second, ask(time.Second, 100, 100), "as many as had waited: the queue may have been empty, so what was learnt before stays")
	require.Equal(t, time.Second, ask(time.Second, 50, 50), "fifty in one second, of which fifty wait")
	require.Zero(t, ask(2*time.Minute, 1000, 0), "none waits")
	require.Equal(t, 100*time.Millisecond, ask(0, 0, 100), "what was learnt is too old")
	require.Equal(t, 100*time.Millisecond, ask(time.Second, -5, 100), "commands have returned to the queue")
}

func TestAForecastOfASmallQueueNeedsHalfOfIt(t *testing.T) {
	var f Forecast
	require.Zero(t, f.Wait(1, 0, 2, 0))
	require.Equal(t, 2*time.Second, f.Wait(1+int64(time.Second), 1, 2, 0))
	var one Forecast
	require.Zero(t, one.Wait(1, 0, 1, 0))
	require.Zero(t, one.Wait(1+int64(time.Second), 1, 1, 0), "a queue of one was empty")
}
