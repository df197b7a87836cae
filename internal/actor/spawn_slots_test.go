package actor

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConcurrentSpawnsEachGetTheirOwnActorAndMailbox(t *testing.T) {
	const many = 200
	var wg sync.WaitGroup
	for n := range many {
		wg.Go(func() {
			heard := make(chan int, 1)
			pid, err := Spawn(system.Root, Unique(system, "one"), NewMailbox(nil), func() Actor {
				return on(func(ctx Context) {
					if m, ok := ctx.Message().(int); ok {
						heard <- m - n
					}
				})
			})
			require.NoError(t, err)
			system.Root.Send(pid, 2*n)
			require.Equal(t, n, <-heard, "the message, as the right actor changes it")
			Stop(system, pid)
		})
	}
	wg.Wait()
	require.Nil(t, spawning.actor, "the slot is empty")
}

func TestAFailedSpawnLeavesNoActorInTheSlot(t *testing.T) {
	pid := spawn(t, NewMailbox(nil), func(Context) {})
	_, err := Spawn(system.Root, pid.Id, NewMailbox(nil), func() Actor { return on(func(Context) {}) })
	require.Error(t, err)
	require.Nil(t, spawning.actor)
	Stop(system, pid)
}
