package pipeline_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/queue"
)

// protoactor's own priority mailbox reads the priority of a request's envelope, which has none.
func TestAnActorsRequestIsServedByThePriorityOfItsCommand(t *testing.T) {
	var served []int
	s := stage.New("s", fn(func(_ context.Context, cmd int) behaviour.Outcome {
		served = append(served, cmd)
		return behaviour.OK(cmd)
	}), stage.Workers(1, 1), stage.Discipline(queue.PriorityOf(func(n int) int { return n })))
	p := run(t, s)
	require.NoError(t, p.Pause(s))
	root := system().Root
	root.Send(s.PID(), 1)
	low := root.RequestFuture(s.PID(), 2, 20*time.Second)
	root.Send(s.PID(), 3)
	high := root.RequestFuture(s.PID(), 4, 20*time.Second)
	require.NoError(t, p.Resume(s))
	for _, answer := range []interface{ Wait() error }{low, high} {
		require.NoError(t, answer.Wait())
	}
	require.NoError(t, p.Drain(soon(t)))
	require.Equal(t, []int{4, 3, 2, 1}, served)
}
