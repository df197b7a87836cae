package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThereAreNoMoreInstancesThanTheKnobSays(t *testing.T) {
	var x Instances
	members := make([]*Holding, 3)
	for i := range members {
		members[i] = new(Holding)
	}
	a, b, c := members[0], members[1], members[2]
	require.True(t, x.Equip(a, 2), "it makes one")
	a.Instance = "a"
	require.True(t, x.Equip(b, 2))
	b.Instance = "b"
	require.False(t, x.Available(2))
	require.False(t, x.Equip(c, 2), "there are two, and both are in use")
	require.False(t, c.Owns())

	x.TakeBack(a, 2)
	require.True(t, x.Available(2))
	require.False(t, x.Equip(c, 2), "an idle one is lent")
	require.Equal(t, "a", c.Instance)

	x.TakeBack(c, 1)
	require.Equal(t, "a", c.Surplus, "there is one too many now")
	x.TakeBack(b, 1)
	require.Equal(t, Instances{made: 1, idle: []any{"b"}}, x)
	require.Equal(t, []any{"b"}, x.Surplus(0))
	require.Zero(t, x.made)
}

func TestAMarkCountsTheWorkersThatWereThereUntilTheyLeaveOrPass(t *testing.T) {
	var x Instances
	members := make([]Holding, 4)
	for i := range members[:3] {
		x.Enter(&members[i])
	}
	x.Mark()
	require.EqualValues(t, 3, x.Unmarked())
	x.Enter(&members[3])
	x.Exit(&members[3])
	require.EqualValues(t, 3, x.Unmarked(), "it came after the mark")
	x.Exit(&members[0])
	x.Exit(&members[0])
	x.Pass(&members[1])
	x.Pass(&members[1])
	require.EqualValues(t, 1, x.Unmarked())
	x.Exit(&members[1])
	require.EqualValues(t, 1, x.Unmarked(), "it has passed")
	x.Exit(&members[2])
	require.Zero(t, x.Unmarked())
	require.Zero(t, x.busy)
}

func TestAnInstanceThatFitsIsLentUntilItIsTakenBack(t *testing.T) {
	var x Instances
	var a, b Holding
	require.True(t, x.Equip(&a, 3))
	a.Instance = "a"
	x.TakeBack(&a, 3)
	require.False(t, x.Lend(&b, func(inst any) bool { return inst == "b" }))
	require.True(t, x.Lend(&b, func(inst any) bool { return inst == "a" }))
	require.True(t, b.Owns())
	require.Equal(t, InsideInstances{Made: 1}, x.Inspect())
	x.TakeBack(&b, 3)
	require.Equal(t, []any{"a"}, x.TakeIdle())
	require.Zero(t, x.Inspect().Made)
}

func TestAWorkerTakesThePlaceOfAnotherAtTheInbox(t *testing.T) {
	var x Instances
	var from, to Holding
	x.Enter(&from)
	x.Mark()
	to.Succeed(&from)
	require.False(t, from.InUse())
	require.True(t, to.InUse())
	x.Exit(&from)
	require.Equal(t, 1, x.Busy())
	x.Exit(&to)
	require.Zero(t, x.Busy())
	require.Zero(t, x.Unmarked(), "it had the mark of the other")
}
