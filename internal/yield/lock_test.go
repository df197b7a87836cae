package yield

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The lock is held for longer than a submitter waits before it blocks, too.
func TestManySubmittersAndWorkersHoldALockOneAtATime(t *testing.T) {
	const submitters, workers, times = 64, 4, 500
	var mu Lock
	var held, count int
	var done sync.WaitGroup
	use := func(lock func(), pause time.Duration) {
		for range times {
			lock()
			held++
			if held != 1 {
				t.Error("two hold the lock")
			}
			count++
			if count%1000 == 0 {
				time.Sleep(pause)
			}
			held--
			mu.Unlock()
		}
	}
	for range submitters {
		done.Go(func() { use(mu.LockForSubmitter, time.Millisecond) })
	}
	for range workers {
		done.Go(func() { use(mu.Lock, time.Millisecond) })
	}
	done.Wait()
	require.Equal(t, (submitters+workers)*times, count)
	require.True(t, mu.TryLock())
}

// The goroutine that holds the lock may be waiting itself, for a processor: then others must not turn in a loop.
func TestOneThatWaitsForTheLockBlocksIfItIsHeldForLong(t *testing.T) {
	for name, tt := range map[string]struct {
		lock  func(*Lock)
		waits string
	}{
		"a submitter": {(*Lock).LockForSubmitter, "WaitForTurn"},
		"a worker":    {(*Lock).Lock, "yieldForTurn"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu Lock
			mu.Lock()
			var done sync.WaitGroup
			done.Go(func() {
				tt.lock(&mu)
				mu.Unlock()
			})
			require.Eventually(t, func() bool {
				stacks := make([]byte, 1<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				for g := range strings.SplitSeq(string(stacks), "\n\n") {
					if strings.Contains(g, tt.waits) && strings.Contains(g, "[sync.Mutex.Lock") {
						return true
					}
				}
				return false
			}, 10*time.Second, time.Millisecond)
			mu.Unlock()
			done.Wait()
		})
	}
}
