package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// batches lets a second pass for each number of handled commands, and returns the batch of the first stage after each.
func (f *row) batches(handled ...int) []int {
	batches := make([]int, 0, len(handled))
	for _, n := range handled {
		f.now += time.Second
		f.stages[0].Window = controller.Counters{Accepted: uint64(n), OK: uint64(n)}
		f.ask(controller.EventTick)
		batches = append(batches, f.stages[0].Batch.Max)
	}
	return batches
}

// The vector was made by hand. A hundred commands a second are smoothed to 30, 51, 65.7, 76.0, 83.2, 88.2, 91.8, 94.2:
// each is the best so far, so the batch is divided by 1.2 from 10 down to 1. At 60 a second the smoothed values are
// 84.0, less than 90 % of 94.2, and 76.8: the batch grows. At a hundred again they are 83.7, 88.6, 92.0, still less
// than 98 % of 94.2, and then 94.4 and 96.1: the batch shrinks.
func TestBatchingFindsTheSmallestBatchThatGetsAsMuchDone(t *testing.T) {
	handled := append(during(8, 100), append(during(2, 60), during(5, 100)...)...)
	tests := map[string]struct {
		law  policy.Batching
		want []int
	}{
		"rounded up":          {policy.Batching{Act: 1, Max: 10}, []int{8, 6, 5, 4, 3, 2, 1, 1, 2, 3, 4, 5, 6, 5, 4}},
		"at least three":      {policy.Batching{Act: 1, Max: 10, Min: 3}, []int{8, 6, 5, 4, 3, 3, 3, 3, 4, 5, 6, 8, 10, 8, 6}},
		"welsh: rounded down": {policy.Batching{Preset: policy.Welsh, Act: 1, Max: 10, Min: 1}, []int{8, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		"as the stage has":    {policy.Batching{Act: 1}, []int{53, 44, 36, 30, 25, 20, 16, 13, 16, 20, 24, 29, 35, 29, 24}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, tt.law.Check())
			f := newRow(tt.law.New(), pool(1, 1, 1))
			require.Equal(t, tt.want, f.batches(handled...))
			require.NoError(t, f.err)
		})
	}
}

func TestBatchingActsAtEveryFifthTick(t *testing.T) {
	f := newRow(policy.Batching{}.New(), pool(1, 1, 1))
	require.Equal(t, []int{64, 64, 64, 64, 53, 53, 53, 53, 53, 44}, f.batches(during(10, 100)...))
	welsh := newRow(policy.Batching{Preset: policy.Welsh}.New(), pool(1, 1, 1))
	require.Equal(t, 1000, welsh.stages[0].Batch.Max, "it starts with the largest")
	require.Equal(t, []int{1000, 1000, 1000, 1000, 833}, welsh.batches(during(5, 100)...))
	require.Equal(t, 8, welsh.batches(during(500, 100)...)[499])
}

func TestBatchingRestartsWhenTheLoadChangesALot(t *testing.T) {
	tests := map[string]struct {
		then int
		want []int
	}{
		// 99.7 is nearly 100 by then. 0.7 · 99.7 + 0.3 · 500 is more than twice that.
		"much more": {500, []int{53, 44, 36}},
		// 69.8, 48.8, 34.2, 23.9 make it grow, and 16.7 is less than 20 %: the largest at once.
		"nothing": {0, []int{2, 3, 4, 5, 64}},
		// 0.7 · 99.7 + 0.3 · 90 is 96.8, more than 90 %: not a large change.
		"a bit less": {90, []int{1, 1, 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newRow(policy.Batching{Act: 1}.New(), pool(1, 1, 1))
			require.Equal(t, 1, f.batches(during(25, 100)...)[24])
			require.Equal(t, tt.want, f.batches(during(len(tt.want), tt.then)...))
		})
	}
}

// At half the load the batch grows to the largest without getting back to the best; the law then takes the current
// throughput as the best, and shrinks again.
func TestBatchingLearnsANewBestAtTheLargest(t *testing.T) {
	f := newRow(policy.Batching{Act: 1, Max: 4}.New(), pool(1, 1, 1))
	f.batches(during(40, 100)...)
	batches := f.batches(during(60, 50)...)
	require.Equal(t, []int{2, 3, 4, 4, 3, 2}, batches[:6])
	require.Equal(t, []int{1, 1, 1}, batches[57:])
}

func TestBatchingStatesItsReasons(t *testing.T) {
	f := newRow(policy.Batching{Act: 1, Max: 3}.New(), pool(1, 1, 1))
	f.batches(100, 100, 100, 0, 0)
	lines := make([]string, 0, 5)
	for _, c := range f.journal.Entries() {
		lines = append(lines, c.String())
	}
	require.Equal(t, []string{
		`0s test: stage "stage 0": batch 64 to 3: starts with the largest`,
		`1s test: stage "stage 0": batch 3 to 2: throughput 30.0/s >= 200% of 0.0/s, the best`,
		`2s test: stage "stage 0": batch 2 to 1: throughput 51.0/s > 90% of 30.0/s, the best`,
		`4s test: stage "stage 0": batch 1 to 2: throughput 46.0/s <= 90% of 65.7/s, the best`,
		`5s test: stage "stage 0": batch 2 to 3: throughput 32.2/s < 98% of 65.7/s, the best`,
	}, lines)
}

func TestBatchingChangesOnlyTheBatchOfAKnownStage(t *testing.T) {
	t.Run("the linger of the stage stays", func(t *testing.T) {
		st := pool(1, 1, 1)
		st.Batch = controller.Batch{Max: 6, Linger: time.Minute}
		f := newRow(policy.Batching{Act: 1}.New(), st)
		f.batches(100)
		require.Equal(t, controller.Batch{Max: 5, Linger: time.Minute}, f.stages[0].Batch)
	})
	t.Run("a stage whose batch is not known stays", func(t *testing.T) {
		f := newRow(policy.Batching{Act: 1}.New(), pool(1, 1, 1))
		f.stages = append(f.stages, controller.StageStats{ID: 1, Name: "new"})
		f.batches(100, 100)
		require.Zero(t, f.stages[1].Batch)
		f.stages[1].Batch.Max = 12
		f.batches(100, 100)
		require.Less(t, f.stages[1].Batch.Max, 13)
	})
	t.Run("except batches below the minimum", func(t *testing.T) {
		f := newRow(policy.Batching{Min: 100}.New(), pool(1, 1, 1))
		require.Equal(t, 100, f.stages[0].Batch.Max)
	})
	t.Run("two ticks at one time", func(t *testing.T) {
		f := newRow(policy.Batching{Act: 1}.New(), pool(1, 1, 1))
		f.ask(controller.EventTick)
		f.ask(controller.EventTick)
		require.Empty(t, f.journal.Entries())
	})
}

func TestANewStageStartsWithTheLargestBatch(t *testing.T) {
	f := newRow(policy.Batching{Act: 1, Max: 30}.New(), pool(1, 1, 1))
	f.batches(during(9, 100)...)
	f.stages = append(f.stages, furnished(controller.StageStats{Total: controller.Counters{OK: 9999}}, 1))
	f.batches(100)
	require.Equal(t, 30, f.stages[1].Batch.Max)
}

func TestBatchingAsksForTicksAtTheStartAndOnlyThen(t *testing.T) {
	for law, want := range map[policy.Batching]time.Duration{
		{}: time.Second, {Preset: policy.Welsh}: time.Second, {Interval: time.Minute}: time.Minute,
	} {
		requireTicksFromTheStart(t, law, want)
	}
}

func TestCheckReturnsAllFaultsOfBatching(t *testing.T) {
	tests := map[string]struct {
		law  policy.Batching
		want []string
	}{
		"the defaults are fine":    {policy.Batching{}, nil},
		"welsh is fine":            {policy.Batching{Preset: policy.Welsh}, nil},
		"the greatest are fine":    {policy.Batching{Interval: math.MaxInt64, Act: math.MaxInt, Min: 1 << 16, Max: 1 << 16}, nil},
		"an unknown preset":        {policy.Batching{Preset: policy.Cruz}, []string{`unknown Preset "cruz"; known is welsh`}},
		"Min above Max":            {policy.Batching{Min: 9, Max: 8}, []string{"Min 9 is more than Max 8"}},
		"Max below Min of default": {policy.Batching{Preset: policy.Welsh, Max: 5}, []string{"Min 8 is more than Max 5"}},
		"more than a stage takes":  {policy.Batching{Max: 1<<16 + 1}, []string{"a batch has at most 65536 commands"}},
		"all at once": {
			policy.Batching{Interval: -1, Act: -2, Min: -3, Max: -4},
			[]string{"Interval -1ns", "Act -2", "Min -3", "Max -4"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { requireFaults(t, tt.law, "policy: batching: ", tt.want) })
	}
}

func anyBatching(t *rapid.T) policy.Batching {
	law := policy.Batching{
		Preset: rapid.SampledFrom([]policy.Preset{"", policy.Welsh}).Draw(t, "preset"),
		Act:    rapid.IntRange(1, 5).Draw(t, "act"), Min: rapid.IntRange(1, 20).Draw(t, "min"),
	}
	law.Max = law.Min + rapid.IntRange(0, 200).Draw(t, "span")
	require.NoError(t, law.Check())
	return law
}

func TestABatchStaysBetweenMinAndMaxUnderAnyLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := anyBatching(t)
		f := newRow(law.New(), pool(1, 1, 1))
		for range rapid.IntRange(1, 80).Draw(t, "looks") {
			f.now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
			f.stages[0].Window.OK = rapid.SampledFrom([]uint64{0, 1, 90, 100, 1e6}).Draw(t, "handled")
			before := f.stages[0].Batch.Max
			f.ask(controller.EventTick)
			require.NoError(t, f.err)
			after := f.stages[0].Batch.Max
			require.GreaterOrEqual(t, after, law.Min)
			require.LessOrEqual(t, after, law.Max)
			require.GreaterOrEqual(t, 6*after+5, 5*before, "it shrinks step by step")
		}
	})
}

// needs lets steps pass with a load of 1000 commands a second that a stage handles if its batches are large enough. It
// returns for each step whether they nearly are: the law accepts 90 % of the best, which is itself smoothed.
func (f *row) needs(need, steps int) (enough []bool) {
	for range steps {
		for range 5 {
			f.batches(1000 * min(need, f.stages[0].Batch.Max) / need)
		}
		enough = append(enough, 10*f.stages[0].Batch.Max >= 8*need)
	}
	return enough
}

// A batch that is too small grows until it is large enough. Sandstorm's did not grow.
func TestABatchNeverStaysTooSmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newRow(policy.Batching{}.New(), pool(1, 1, 1))
		enough := f.needs(rapid.IntRange(2, 60).Draw(t, "commands that it needs"), 60)
		for from := range 48 {
			require.Contains(t, enough[from:from+12], true, "within a dozen steps")
		}
	})
	f := newRow(policy.Batching{Preset: policy.Welsh, Min: 1, Max: 64}.New(), pool(1, 1, 1))
	require.NotContains(t, f.needs(4, 60)[30:], true)
}
