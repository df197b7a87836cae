package lab_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/lab"
)

func times(t *testing.T, w lab.Workload, seed uint64, length time.Duration) []time.Duration {
	t.Helper()
	all, err := w.Times(seed, length)
	require.NoError(t, err)
	require.True(t, slices.IsSorted(all))
	require.True(t, len(all) == 0 || all[0] >= 0 && all[len(all)-1] < length)
	return all
}

// moments returns the mean and the variance of some values.
func moments(values []float64) (mean, variance float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		variance += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, variance
}

// counted returns how many times are in each window.
func counted(times []time.Duration, length, window time.Duration) []float64 {
	counts := make([]float64, length/window)
	for _, at := range times {
		if i := int(at / window); i < len(counts) {
			counts[i]++
		}
	}
	return counts
}

func TestPoissonHasExponentialGapsAndCountsWithTheVarianceOfTheirMean(t *testing.T) {
	const rate, length = 1000.0, 200 * time.Second
	all := times(t, lab.Poisson(rate), 7, length)
	var gaps []float64
	for i := range all[1:] {
		gaps = append(gaps, (all[i+1] - all[i]).Seconds())
	}
	mean, variance := moments(gaps)
	assert.InEpsilon(t, 1/rate, mean, 0.01)
	assert.InEpsilon(t, 1/rate/rate, variance, 0.02)
	mean, variance = moments(counted(all, length, 100*time.Millisecond))
	assert.InEpsilon(t, rate/10, mean, 0.01)
	assert.InEpsilon(t, mean, variance, 0.1)
}

func TestOnOffHasTheMeanOfItsRatesAndComesInBursts(t *testing.T) {
	const length = 4000 * time.Second
	all := times(t, lab.OnOff(20, 200, 3*time.Second, time.Second), 7, length)
	assert.InEpsilon(t, (20.0*3+200)/4, float64(len(all))/length.Seconds(), 0.06)
	// The counts of a window have the variance of a Poisson process and that of the rate, which is constant in most windows.
	mean, variance := moments(counted(all, length, 100*time.Millisecond))
	ofRate := (0.75*math.Pow(20-65, 2) + 0.25*math.Pow(200-65, 2)) / 100
	assert.InEpsilon(t, mean+ofRate, variance, 0.12)
}

func TestABurstHasItsPeakBetweenTwoTimesAndTheRateElsewhere(t *testing.T) {
	counts := counted(times(t, lab.Burst(500, 4000, 3*time.Second, 5*time.Second), 7, 8*time.Second), 8*time.Second, time.Second)
	for i, want := range []float64{500, 500, 500, 4000, 4000, 500, 500, 500} {
		assert.InDelta(t, want, counts[i], 6*math.Sqrt(want), "second %d", i)
	}
	counts = counted(times(t, lab.Burst(500, 0, time.Second, 2*time.Second), 7, 3*time.Second), 3*time.Second, time.Second)
	assert.Zero(t, counts[1], "a peak of 0 is a gap")
	counts = counted(times(t, lab.Burst(500, 0, time.Second, time.Hour), 7, 3*time.Second), 3*time.Second, time.Second)
	assert.Zero(t, counts[1]+counts[2], "a burst may end after the run")
}

func TestTheSameSeedGivesTheSameTimesAndAnotherOneOthers(t *testing.T) {
	for name, w := range map[string]lab.Workload{
		"poisson": lab.Poisson(300),
		"burst":   lab.Burst(100, 1000, time.Second, 2*time.Second),
		"on off":  lab.OnOff(100, 1000, 300*time.Millisecond, 100*time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			first := times(t, w, 3, 5*time.Second)
			assert.Equal(t, first, times(t, w, 3, 5*time.Second))
			assert.NotEqual(t, first, times(t, w, 4, 5*time.Second))
		})
	}
}

func TestATraceIsTheSameForEachSeedAndEndsWithTheRun(t *testing.T) {
	w := lab.Trace(3*time.Second, time.Second, 2*time.Second)
	assert.Equal(t, []time.Duration{time.Second, 2 * time.Second}, times(t, w, 1, 3*time.Second))
	assert.Equal(t, times(t, w, 1, time.Minute), times(t, w, 2, time.Minute))
}

func TestTheFaultOfATraceFileHasItsLine(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "times")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	for name, c := range map[string][2]string{
		"no time":    {"1\n\n# two\ntwo\n", `times:4: "two" is no time: write seconds, such as 0.25, or a duration, such as 250ms`},
		"not finite": {"NaN\n", `times:1: "NaN" is no time`},
		"too large":  {"1e300\n", `times:1: "1e300" is no time`},
		"empty":      {"# nothing\n", "times has no times"},
		"negative":   {"-1\n", "the Trace has a negative time, -1s"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lab.TraceFile(write(c[0])).Times(1, time.Second)
			require.ErrorContains(t, err, c[1])
		})
	}
	_, err := lab.TraceFile(filepath.Join(t.TempDir(), "none")).Times(1, time.Second)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAWorkloadThatCannotBeSentSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		workload lab.Workload
		length   time.Duration
		err      string
	}{
		"none":            {lab.Workload{}, time.Second, "lab: Workload is missing: Poisson, Burst, OnOff, Trace or TraceFile makes one"},
		"no rate":         {lab.Poisson(0), time.Second, "lab: Poisson with a rate of 0 sends nothing"},
		"negative rate":   {lab.Poisson(-1), time.Second, "lab: Poisson with a rate of -1: it must be from 0 to 1000000 requests a second"},
		"rate no number":  {lab.Burst(1, math.NaN(), 0, 1), time.Second, "lab: Burst with a rate of NaN: it must be from 0 to 1000000 requests a second"},
		"empty burst":     {lab.Burst(1, 2, time.Second, time.Second), time.Second, "lab: Burst from 1s to 1s: it must begin at 0 or later, and end after that"},
		"short phases":    {lab.OnOff(1, 2, time.Millisecond, time.Second), time.Second, "lab: OnOff with times of 1ms and 1s: they must be 10 ms or more"},
		"zero length":     {lab.Poisson(1), 0, "lab: the workload Poisson(1/s) has a length of 0s, and sends nothing"},
		"too much":        {lab.Poisson(1e6), time.Minute, "lab: the workload Poisson(1e+06/s) may have 60000000 requests in 1m0s, and at most 5000000 are possible"},
		"too much on":     {lab.OnOff(1, 1e6, time.Second, time.Second), time.Minute, "lab: the workload OnOff(1/s for 1s, 1e+06/s for 1s) may have 60000000 requests in 1m0s, and at most 5000000 are possible"},
		"empty trace":     {lab.Trace(), time.Second, "lab: the Trace has no times"},
		"negative time":   {lab.Trace(-time.Second), time.Second, "lab: the Trace has a negative time, -1s"},
		"trace too late":  {lab.Trace(time.Minute), time.Second, "lab: the first time of the Trace(1 requests) is 1m0s, and a run ends at 1s"},
		"negative length": {lab.Trace(0), -1, "lab: the workload Trace(1 requests) has a length of -1ns, and sends nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.workload.Times(1, c.length)
			require.EqualError(t, err, c.err)
		})
	}
}
