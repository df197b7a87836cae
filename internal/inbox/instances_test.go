package inbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

// One of two idle workers has the only instance. WakeAll wakes workers to check their instances. A command that comes
// meanwhile is left to a worker that is on its way, so that worker must be able to handle it.
func TestWakeAllWakesOnlyWorkersThatHaveAnInstance(t *testing.T) {
	in := newTestInbox(2, Config{Name: "r", Capacity: 4, Batch: 1, Instances: 1, StreakEnds: time.Minute})
	var tally Tally
	require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 1}))
	require.Equal(t, 1, in.Turn(in.members[0], &tally, true))
	in.members[0].Instance = "old"
	tally.OK = 1
	require.Zero(t, in.Turn(in.members[0], &tally, true))
	require.Zero(t, in.Turn(in.members[1], &tally, true))
	in.Workers().WakeAll()
	require.Equal(t, []int{1, 0}, in.woken)
	require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 2}))
	require.Equal(t, []int{1, 0}, in.woken, "a worker is on its way")
	require.Equal(t, 1, in.Turn(in.members[0], &tally, true))
	require.Equal(t, "old", in.members[0].Instance)
}

func TestAnIdleInstanceIsBorrowedAndReturnedOrDropped(t *testing.T) {
	in := newTestInbox(0, Config{Name: "r", Capacity: 4, Batch: 1, Instances: 2, StreakEnds: time.Minute})
	members := []Member{{}, {}}
	for i, inst := range []string{"old", "new"} {
		require.True(t, in.Instances().Claim(&members[i]))
		members[i].Instance = inst
	}
	in.Instances().Return(&members[0])
	in.Instances().Return(&members[1])
	is := func(want string) func(any) bool { return func(inst any) bool { return inst == want } }
	var m Member
	require.False(t, in.Instances().Borrow(&m, is("other")))
	require.True(t, in.Instances().Borrow(&m, is("old")))
	require.Equal(t, "old", m.Instance)
	require.Equal(t, 2, in.state.instances.Inspect().Made, "a borrowed instance still counts")
	require.False(t, in.Instances().Borrow(&Member{}, is("old")))
	m.Instance = "renewed"
	in.Instances().Return(&m)
	require.Equal(t, []any{"new", "renewed"}, in.state.instances.Inspect().Idle)
	require.True(t, in.Instances().Borrow(&m, is("new")))
	m.Instance = nil
	in.Instances().Return(&m)
	require.Equal(t, []any{"renewed"}, in.state.instances.Inspect().Idle)
	require.Equal(t, 1, in.state.instances.Inspect().Made, "another may be made")
}
