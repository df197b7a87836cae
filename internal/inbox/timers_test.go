package inbox

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

func TestAHaltedRoomHasNoTimerThatIsSet(t *testing.T) {
	pl := &Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) {}}
	in := New(Config{Name: "r", Capacity: 8, Batch: 8, Linger: time.Hour, Retry: Retry{Attempts: 2, Backoff: time.Hour, Max: time.Hour}})
	in.Attach(pl)
	in.Open()
	s := Member{Wake: func() {}}
	in.Join(&s, false)
	require.NoError(t, in.Submit(context.Background(), &command.Envelope{Cmd: 1}))
	require.Zero(t, in.Turn(&s, &Tally{}, false), "it lingers")
	set := func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.setRetryTimer(time.Hour)
		in.rest(time.Hour)
		in.watchSole()
	}
	set()
	in.Halt()()
	set() // as a worker may that was at a batch
	for name, timer := range map[string]*time.Timer{"retries": in.retryTimer, "lingers": in.lingerTimer, "rests": in.restTimer, "alone": in.sole.timer} {
		require.NotNil(t, timer, name)
		require.False(t, timer.Stop(), name)
	}
}
