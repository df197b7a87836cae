package inbox

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

func TestAHaltedInboxHasNoTimerThatIsSet(t *testing.T) {
	pl := &Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) {}}
	in := New(Config{Name: "r", Capacity: 8, Batch: 8, Linger: time.Hour, Retry: Retry{Attempts: 2, Backoff: time.Hour, Max: time.Hour}})
	pl.Attach(in)
	in.Phases().Open()
	m := Member{Wake: func() {}}
	in.Workers().Join(&m, false)
	require.NoError(t, in.Submit(context.Background(), &command.Envelope{Load: 1}))
	require.Zero(t, in.Turn(&m, &Tally{}, false), "the batch lingers")
	set := func() {
		var fx effects
		in.mu.Lock()
		in.state.setAlarm(retryAlarm, time.Hour)
		in.state.leaveAlone(time.Hour, &fx)
		in.state.setAlarm(soleAlarm, time.Hour)
		in.state.setAlarm(rateAlarm, time.Hour)
		in.state.setAlarm(keyAlarm, time.Hour)
		in.state.setAlarm(lapseAlarm, time.Hour)
		in.unlock(&fx)
	}
	set()
	in.Phases().Halt()()
	set() // as a worker may that had a batch when the inbox was halted
	for a, x := range in.state.timers.all {
		require.NotNil(t, x.timer, "alarm %d", a)
		require.False(t, x.timer.Stop(), "alarm %d", a)
	}
}
