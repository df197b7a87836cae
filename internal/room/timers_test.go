package room

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

func TestAHaltedRoomHasNoTimerThatIsSet(t *testing.T) {
	host := &Host{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(End) {}}
	r := New(Config{Name: "r", Capacity: 8, Batch: 8, Linger: time.Hour, Retry: Retry{Attempts: 2, Backoff: time.Hour, Max: time.Hour}})
	r.Adopt(host)
	r.Open()
	s := Seat{Wake: func() {}}
	r.Join(&s, false)
	require.NoError(t, r.Submit(context.Background(), &command.Envelope{Cmd: 1}))
	require.Zero(t, r.Turn(&s, &Tally{}, false), "it lingers")
	set := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.alarm(time.Hour)
		r.rest(time.Hour)
		r.watchOver()
	}
	set()
	r.Halt()()
	set() // as a worker may that was at a batch
	for name, timer := range map[string]*time.Timer{"retries": r.timer, "lingers": r.lingers, "rests": r.rests, "alone": r.alone.timer} {
		require.NotNil(t, timer, name)
		require.False(t, timer.Stop(), name)
	}
}
