package supervisor

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAStrategyIsARangeOfChildren(t *testing.T) {
	for _, row := range []struct {
		strategy    Strategy
		i, from, to int
	}{
		{OneForOne, 0, 0, 1},
		{OneForOne, 1, 1, 2},
		{OneForOne, 2, 2, 3},
		{RestForOne, 0, 0, 3},
		{RestForOne, 1, 1, 3},
		{RestForOne, 2, 2, 3},
		{OneForAll, 0, 0, 3},
		{OneForAll, 1, 0, 3},
		{OneForAll, 2, 0, 3},
	} {
		from, to := row.strategy.affected(row.i, 3)
		assert.Equal(t, []int{row.from, row.to}, []int{from, to}, "%v, child %d", row.strategy, row.i)
	}
}

func TestStrategiesHaveTheirOTPNames(t *testing.T) {
	held(t)
	assert.Equal(t, "one_for_one", OneForOne.String())
	assert.Equal(t, "rest_for_one", RestForOne.String())
	assert.Equal(t, "one_for_all", OneForAll.String())
	assert.Equal(t, "Strategy(9)", Strategy(9).String())
}

func TestIntensityCountsRestartsWithinItsPeriod(t *testing.T) {
	held(t)
	for name, row := range map[string]struct {
		in   Intensity
		at   []time.Duration // of the failures
		many []bool
	}{
		"the zero intensity makes none":                   {Intensity{}, []time.Duration{0}, []bool{true}},
		"one restart, and the second is too many":         {Intensity{1, 5}, []time.Duration{0, 1}, []bool{false, true}},
		"one at the very end of the period counts":        {Intensity{1, 5}, []time.Duration{0, 5}, []bool{false, true}},
		"one just after the period is forgotten":          {Intensity{1, 5}, []time.Duration{0, 6}, []bool{false, false}},
		"the window slides":                               {Intensity{2, 5}, []time.Duration{0, 3, 6, 7}, []bool{false, false, false, true}},
		"failures at one instant all count":               {Intensity{2, 5}, []time.Duration{0, 0, 0}, []bool{false, false, true}},
		"failures that are far apart never count":         {Intensity{1, 5}, []time.Duration{0, 10, 20, 30, 40}, make([]bool, 5)},
		"no restarts within a period, as the zero value":  {Intensity{0, 5}, []time.Duration{0}, []bool{true}},
		"within zero time, failures at one instant count": {Intensity{1, 0}, []time.Duration{0, 0}, []bool{false, true}},
		"within zero time, others do not count":           {Intensity{1, 0}, []time.Duration{0, 1}, []bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var restarts []time.Time
			epoch := time.Unix(0, 0)
			for i, at := range row.at {
				var many bool
				restarts, many = row.in.add(restarts, epoch.Add(at))
				require.Equal(t, row.many[i], many, "failure %d", i+1)
			}
		})
	}
}

func TestIntensityIsTheArithmeticOfAddRestartAndKeepsNoMoreThanAPeriod(t *testing.T) {
	held(t)
	rapid.Check(t, func(t *rapid.T) {
		in := Intensity{rapid.IntRange(0, 5).Draw(t, "restarts"), time.Duration(rapid.IntRange(0, 10).Draw(t, "within"))}
		var all, kept []time.Time
		now := time.Unix(0, 0)
		for _, gap := range rapid.SliceOfN(rapid.IntRange(0, 12), 1, 40).Draw(t, "gaps") {
			now = now.Add(time.Duration(gap))
			all = append(all, now)
			want := 0
			for _, at := range all {
				if now.Sub(at) <= in.Within {
					want++
				}
			}
			before := append([]time.Time(nil), kept...)
			next, many := in.add(kept, now)
			if len(next) != want || many != (want > in.Restarts) {
				t.Fatalf("at %v: %d kept, many %v; want %d", now, len(next), many, want)
			}
			for i := range before {
				if !before[i].Equal(kept[i]) {
					t.Fatalf("add wrote over its argument")
				}
			}
			kept = next
		}
	})
}

func TestAnEscalationHasAStory(t *testing.T) {
	cause := errors.New("boom")
	first := &EscalationError{Supervisor: "building", Child: "b", Reason: cause}
	require.EqualError(t, first, `building: "b" failed: boom`)
	later := &EscalationError{Supervisor: "building", Child: "b", Restarts: 3, Within: time.Minute, Reason: cause}
	require.EqualError(t, later, `building: "b" failed after 3 restarts within 1m0s: boom`)
	require.ErrorIs(t, later, cause)
}

func TestAPauseDoublesUpToItsLimitAndOnlyTheJitterIsRandom(t *testing.T) {
	held(t)
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			First:  time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "first")),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
			Max:    time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "max")),
		}
		streak := rapid.IntRange(1, 100).Draw(t, "streak")
		full := Backoff{First: b.First, Max: b.Max, Jitter: noJitter}.pause(streak, 0.9)
		want := float64(b.First)
		for range streak - 1 {
			want *= 2
		}
		if full != min(time.Duration(min(want, 1<<62)), b.longest()) {
			t.Fatalf("%v", full)
		}
		share := b.Jitter
		if share == 0 {
			share = 0.5
		}
		got := b.pause(streak, rapid.Float64Range(0, 0.999).Draw(t, "chance"))
		if got > full || float64(got) < float64(full)*(1-share)-1 {
			t.Fatalf("%v of %v", got, full)
		}
	})
	require.Zero(t, Backoff{}.pause(9, 0.5), "the zero Backoff never waits")
	require.Zero(t, Backoff{First: time.Second}.pause(0, 0.5))
}
