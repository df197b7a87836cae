package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// kennel is a watchdog in a bubble, and when it gave a worker up.
type kennel struct {
	*watchdog

	fate  atomicFate
	began time.Time
	busy  int // how many more times the worker cannot be given up
	asked int
	gone  []time.Duration
}

func inKennel(t *testing.T, f func(t *testing.T, k *kennel)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &kennel{began: time.Now()}
		k.watchdog = newWatchdog(func() int64 { return int64(time.Since(k.began)) }, k.give, func() {
			k.gone = append(k.gone, time.Since(k.began))
		})
		defer k.alarm.Stop()
		f(t, k)
		synctest.Wait()
	})
}

func (k *kennel) give() bool {
	k.asked++
	if k.busy > 0 {
		k.busy--
		k.checkSoon(&k.wait)
		return false
	}
	k.fate.v.Store(int32(stuck))
	return true
}

// pass lets time pass, and waits until the watchdog has done what is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// call starts a call with a time limit of a second and a grace of two.
func (k *kennel) call(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	k.watch(ctx, time.Second, 2*time.Second)
	return ctx
}

func TestAHandlerThatReturnsWithinItsGraceIsNotGivenUp(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		for range 3 {
			k.call(t)
			pass(3*time.Second - 1)
			require.True(t, k.returned(&k.fate))
		}
		pass(time.Hour)
		require.Zero(t, k.asked)
		require.Empty(t, k.gone)
	})
}

func TestAHandlerIsGivenUpOnceWhenItsGraceIsOver(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		k.call(t)
		pass(time.Hour)
		require.Equal(t, []time.Duration{3 * time.Second}, k.gone)
		require.Equal(t, 1, k.asked)
		require.False(t, k.returned(&k.fate), "the handler's goroutine finds out")
	})
}

func TestTheGraceStartsWhenTheContextHasEnded(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		ctx, cancel := context.WithCancel(t.Context())
		k.watch(ctx, time.Second, 2*time.Second)
		pass(time.Minute)
		require.Zero(t, k.asked, "the context has not ended")
		cancel()
		pass(time.Hour)
		require.Equal(t, []time.Duration{time.Minute + 2*time.Second}, k.gone)
	})
}

func TestTheWatchdogTriesAgainSoonIfTheWorkerCannotBeGivenUp(t *testing.T) {
	inKennel(t, func(t *testing.T, k *kennel) {
		k.busy = 5
		k.call(t)
		until, release := k.wait.start(t.Context())
		defer release()
		pass(3*time.Second + 1)
		require.ErrorIs(t, context.Cause(until), errGrace, "a wait of Emit has ended")
		pass(time.Hour)
		require.Equal(t, []time.Duration{3*time.Second + 5*checkAgain}, k.gone)
		require.Equal(t, 6, k.asked)
	})
}

func TestAWorkerWithoutATimeLimitNeedsNoWatchdog(t *testing.T) {
	var none *watchdog
	require.True(t, none.returned(new(atomicFate)))
	none.unlimit()
}
