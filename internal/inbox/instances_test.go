package inbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/command"
)

// One worker has the only instance, and both are idle. A command comes while somebody is
// called to look to his instance: he must be one who can handle it.
func TestOnlyWhoHasAnInstanceIsCalledToLookToIt(t *testing.T) {
	d := newStaffed(2, Config{Name: "r", Capacity: 4, Batch: 1, Instances: 1, StreakEnds: time.Minute})
	var tally Tally
	require.NoError(t, d.Submit(t.Context(), &command.Envelope{Cmd: 1}))
	require.Equal(t, 1, d.Turn(d.seats[0], &tally, true))
	d.seats[0].Instance = "old"
	tally.OK = 1
	require.Zero(t, d.Turn(d.seats[0], &tally, true))
	require.Zero(t, d.Turn(d.seats[1], &tally, true))
	d.WakeAll()
	require.Equal(t, []int{1, 0}, d.woken)
	require.NoError(t, d.Submit(t.Context(), &command.Envelope{Cmd: 2}))
	require.Equal(t, []int{1, 0}, d.woken, "he is on his way")
	require.Equal(t, 1, d.Turn(d.seats[0], &tally, true))
	require.Equal(t, "old", d.seats[0].Instance)
}

func TestAnInstanceIsBorrowedFromTheShelfAndComesBackOrNot(t *testing.T) {
	d := newStaffed(0, Config{Name: "r", Capacity: 4, Batch: 1, Instances: 2, StreakEnds: time.Minute})
	seats := []Member{{}, {}}
	for i, inst := range []string{"old", "new"} {
		require.True(t, d.Claim(&seats[i]))
		seats[i].Instance = inst
	}
	d.ReturnInstance(&seats[0])
	d.ReturnInstance(&seats[1])
	is := func(want string) func(any) bool { return func(inst any) bool { return inst == want } }
	var seat Member
	require.False(t, d.Borrow(&seat, is("other")))
	require.True(t, d.Borrow(&seat, is("old")))
	require.Equal(t, "old", seat.Instance)
	require.Equal(t, 2, d.made, "it counts on")
	require.False(t, d.Borrow(&Member{}, is("old")))
	seat.Instance = "renewed"
	d.ReturnInstance(&seat)
	require.Equal(t, []any{"new", "renewed"}, d.idleInstances)
	require.True(t, d.Borrow(&seat, is("new")))
	seat.Instance = nil
	d.ReturnInstance(&seat)
	require.Equal(t, []any{"renewed"}, d.idleInstances)
	require.Equal(t, 1, d.made, "another may be made")
}
