package trial_test

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/trial"
)

func TestACanaryGetsItsFractionOfAnyNumberOfCommands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fraction := rapid.Float64Range(0.001, 1).Draw(t, "fraction")
		on := trial.New(trial.Limits{Fraction: fraction})
		picked := 0
		for n := 1; n <= 300; n++ {
			if on.PicksNew(nil) {
				picked++
			}
			require.Equal(t, int(math.Floor(float64(n)*fraction)), picked, "of %d commands", n)
		}
	})
}

func TestCommandsWithTheSameKeyGoToTheSameVersion(t *testing.T) {
	key := func(cmd any) string { return cmd.(string) }
	rapid.Check(t, func(t *rapid.T) {
		less := rapid.Float64Range(0, 1).Draw(t, "fraction")
		more := rapid.Float64Range(less, 1).Draw(t, "larger fraction")
		small, large := trial.New(trial.Limits{Fraction: less, Key: key}), trial.New(trial.Limits{Fraction: more, Key: key})
		cmd := rapid.String().Draw(t, "key")
		picks := small.PicksNew(cmd)
		require.Equal(t, picks, small.PicksNew(cmd))
		if picks {
			require.True(t, large.PicksNew(cmd), "the keys of a smaller fraction are among those of a larger one")
		}
	})
}

func TestACanaryGetsAboutItsFractionOfTheKeys(t *testing.T) {
	on := trial.New(trial.Limits{Fraction: 0.3, Key: func(cmd any) string { return strconv.Itoa(cmd.(int)) }})
	picked := 0
	for n := range 10_000 {
		if on.PicksNew(n) {
			picked++
		}
	}
	require.InDelta(t, 3000, picked, 200)
}

func TestTheVerdictOfATrial(t *testing.T) {
	promote := trial.Limits{Promote: true, Commands: 10, Least: 5, Margin: 0.1}
	manual := trial.Limits{Least: 5, Margin: 0.1}
	for name, row := range map[string]struct {
		limits     trial.Limits
		old, fresh trial.Side // without crashes
		want       trial.State
	}{
		"nothing was counted":                              {promote, trial.Side{}, trial.Side{}, trial.OnTrial},
		"it is promoted after its commands":                {promote, trial.Side{}, trial.Side{Commands: 10}, trial.Promoted},
		"it goes on before that":                           {promote, trial.Side{}, trial.Side{Commands: 9}, trial.OnTrial},
		"it is not promoted without Promote":               {manual, trial.Side{}, trial.Side{Commands: 10}, trial.OnTrial},
		"it is rolled back for its errors":                 {promote, trial.Side{Commands: 10}, trial.Side{Commands: 5, Errors: 1}, trial.RolledBack},
		"also without Promote":                             {manual, trial.Side{Commands: 10}, trial.Side{Commands: 5, Errors: 1}, trial.RolledBack},
		"too few commands say nothing":                     {promote, trial.Side{Commands: 10}, trial.Side{Commands: 4, Errors: 4}, trial.OnTrial},
		"errors within the margin are no reason":           {promote, trial.Side{Commands: 10}, trial.Side{Commands: 10, Errors: 1}, trial.Promoted},
		"errors that the old version has are none, either": {promote, trial.Side{Commands: 10, Errors: 9}, trial.Side{Commands: 10, Errors: 9}, trial.Promoted},
	} {
		t.Run(name, func(t *testing.T) {
			on := trial.New(row.limits)
			for side, counts := range []trial.Side{row.old, row.fresh} {
				for n := range counts.Commands {
					on.Note(side, n < counts.Errors)
				}
			}
			old, fresh := on.Side(trial.Before), on.Side(trial.After)
			require.Equal(t, row.old, old)
			require.Equal(t, row.fresh, fresh)
			how, why := on.Verdict()
			require.Equal(t, row.want, how)
			require.Equal(t, row.want == trial.RolledBack, errors.Is(why, trial.ErrCanary), "%v", why)
		})
	}
}

func TestATrialThatLastsIsNotPromotedBefore(t *testing.T) {
	on := trial.New(trial.Limits{Promote: true, Lasting: time.Hour})
	lasting, needed := on.Lasting()
	require.Equal(t, time.Hour, lasting)
	require.True(t, needed)
	how, _ := on.Verdict()
	require.Equal(t, trial.OnTrial, how)
	on.Elapse()
	how, _ = on.Verdict()
	require.Equal(t, trial.Promoted, how)
}

func TestOnlyCrashesOfTheCanaryBeyondTheLimitEndItsTrial(t *testing.T) {
	on := trial.New(trial.Limits{Crashes: 1})
	for range 3 {
		require.False(t, on.Crashed(trial.Before))
	}
	require.False(t, on.Crashed(trial.After))
	require.True(t, on.Crashed(trial.After))
	old, fresh := on.Side(trial.Before), on.Side(trial.After)
	require.EqualValues(t, 3, old.Crashes)
	require.EqualValues(t, 2, fresh.Crashes)
}
