package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

func TestT10_ColorServesFirstComeFirst(t *testing.T) {
	h := newFake(policy.Color{}, line(3)...)
	h.sound(t)
	require.Equal(t, controller.SharedFIFO, h.Pool(policy.SharedPool).Dispatch)
	require.Equal(t, "A1, B1, A2, B2, A3, B3", shared(h, 1, "A", "B"), "one worker: breadth first")
	require.Equal(t, "A1 B1, A2 B2, A3 B3", shared(h, 2, "A", "B"), "two workers")
}

func TestColorTakesABatchOrItsBound(t *testing.T) {
	require.Equal(t, "0 0", newFake(policy.Color{}, line(2)...).bounds())
	require.Equal(t, "1 1", newFake(policy.Color{Bound: 1}, line(2)...).bounds())
	require.Equal(t, "7 7", newFake(policy.Color{Bound: 7}, line(2)...).bounds())
}

func TestColorReturnsAllFaultsAtOnce(t *testing.T) {
	require.NoError(t, policy.Color{Workers: 4, Bound: 3}.Check())
	require.EqualError(t, policy.Color{Workers: -4, Bound: -3}.Check(),
		"policy: color: Workers -4 is negative\npolicy: color: Bound -3 is negative; use NoBound for none")
}
