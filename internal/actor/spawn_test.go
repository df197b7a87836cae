package actor

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// employer starts unregistered workers and keeps the list of them.
type employer struct {
	heard

	workers []*PID
}

// Receive handles a message to the actor: start a worker of a name, or end them all.
func (e *employer) Receive(ctx Context) {
	switch m := ctx.Message().(type) {
	case string:
		pid, err := SpawnUnregistered(ctx, m, NewMailbox(nil), func() Actor {
			return on(func(ctx Context) {
				switch m := ctx.Message().(type) {
				case error:
					Fail(ctx, m)
				case *Stopped:
					e.note(ctx.Self().Id + " is over")
				}
			})
		})
		if err != nil {
			e.note(err)
			return
		}
		e.workers = append(e.workers, pid)
	case *Terminated:
		e.note("notified that " + m.Who.Id + " is over")
		e.workers = slices.DeleteFunc(e.workers, func(pid *PID) bool { return pid.Id == m.Who.Id })
	case *Stopping:
		for _, pid := range e.workers {
			Adopt(ctx, pid)
		}
	case *Stopped:
		e.note("over")
	}
}

// HandleFailure handles the failure of a worker.
func (e *employer) HandleFailure(system *System, _ Supervisor, child *PID, _ *RestartStatistics, reason, _ any) {
	e.note(reason)
	Stop(system, child)
}

func TestAnUnregisteredActorFailsTowardsItsParentAndIsAwaitedWhenTheParentStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := &employer{}
		pid, err := Spawn(system.Root, Unique(system, "employer"), NewMailbox(nil), func() Actor { return e })
		require.NoError(t, err)
		for n := range 3 {
			system.Root.Send(pid, strconv.Itoa(n))
		}
		synctest.Wait()
		name := func(n int) string { return fmt.Sprintf("%s/%d", pid.Id, n) }
		require.Empty(t, e.take())
		require.Len(t, e.workers, 3)

		system.Root.Send(pid, "1")
		synctest.Wait()
		require.Len(t, e.take(), 1, "the name is taken")

		system.Root.Send(e.workers[1], errBoom)
		synctest.Wait()
		require.Equal(t, []any{errBoom, name(1) + " is over", "notified that " + name(1) + " is over"}, e.take())

		kill(pid)
		all := e.take()
		require.ElementsMatch(t, []any{
			name(0) + " is over", "notified that " + name(0) + " is over",
			name(2) + " is over", "notified that " + name(2) + " is over", "over",
		}, all)
		require.Equal(t, "over", all[len(all)-1], "the last of all")
		require.Empty(t, Processes(system, pid.Id))
	})
}

// A worker may end at the very moment in which its parent is asked to stop.
func TestAParentThatAdoptsAnActorThatHasJustEndedEnds(t *testing.T) {
	for range 300 {
		e := &employer{}
		pid, err := Spawn(system.Root, Unique(system, "employer"), NewMailbox(nil), func() Actor { return e })
		require.NoError(t, err)
		system.Root.Send(pid, "worker")
		over := make(chan struct{})
		watcher := spawn(t, NewMailbox(nil), func(ctx Context) {
			switch m := ctx.Message().(type) {
			case *Started:
				ctx.Watch(pid)
			case *Terminated:
				require.Equal(t, pid.Id, m.Who.Id)
				close(over)
			}
		})
		go Stop(system, Local(system, pid.Id+"/worker"))
		Stop(system, pid)
		<-over
		Stop(system, watcher)
	}
}
