package policy_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// flow is what happens at a stage in ten seconds: commands from outside and from other stages, and commands that are
// handled, each in some busy time.
type flow struct {
	outside, handled uint64
	from             map[int]uint64 // commands, by stage
	each             time.Duration
}

// tenSeconds lets ten seconds pass in a row.
func tenSeconds(f *row, flows ...flow) {
	f.now += 10 * time.Second
	for i, fl := range flows {
		st := &f.stages[i]
		st.Window = controller.Counters{Accepted: fl.outside, OK: fl.handled, Busy: time.Duration(fl.handled) * fl.each}
		for from, n := range fl.from {
			st.Window.Accepted += n
			add(st, controller.StageID(from), n)
		}
	}
	f.ask(controller.EventTick)
}

func add(st *controller.StageStats, from controller.StageID, n uint64) {
	if i := slices.Index(st.Before, from); i >= 0 {
		st.Inflows[i] += n
		return
	}
	st.Before, st.Inflows = append(st.Before, from), append(st.Inflows, n)
}

func workersOf(f *row) (all []int) {
	for i := range f.stages {
		all = append(all, f.stages[i].Workers)
	}
	return all
}

func TestDS2FindsTheWorkersOfItsPaper(t *testing.T) {
	wide := pool(1, 1, 100)
	for name, row := range map[string]struct {
		law    policy.DS2
		stages []controller.StageStats
		flows  []flow
		want   []int
	}{
		"a source of 1000/s, A of 800/s with two workers and two results, B of 900/s with one": {
			policy.DS2{Utilization: 1, Growth: 4}, []controller.StageStats{pool(2, 1, 9), wide},
			[]flow{
				{outside: 10_000, handled: 8000, each: 2500 * time.Microsecond},
				{from: map[int]uint64{0: 16_000}, handled: 9000, each: time.Second / 900},
			}, []int{3, 3},
		},
		"at 70 %": {
			policy.DS2{Growth: 10}, []controller.StageStats{wide},
			[]flow{{outside: 10_000, handled: 1000, each: 10 * time.Millisecond}}, []int{10}, // 10 / 0.7 = 14.3, at most ten times as many
		},
		"at most twice the workers": {
			policy.DS2{}, []controller.StageStats{pool(3, 1, 100)},
			[]flow{{outside: 10_000, handled: 3000, each: 10 * time.Millisecond}}, []int{6},
		},
		"and no more than the stage may have": {
			policy.DS2{}, []controller.StageStats{pool(3, 1, 5)},
			[]flow{{outside: 10_000, handled: 3000, each: 10 * time.Millisecond}}, []int{5},
		},
		"fewer at once": {
			policy.DS2{}, []controller.StageStats{pool(40, 1, 100)},
			[]flow{{outside: 10_000, handled: 10_000, each: 10 * time.Millisecond}}, []int{16}, // 1.1 · 10 / 0.7
		},
		"a tenth more than enough stays": {
			policy.DS2{}, []controller.StageStats{pool(16, 1, 100)},
			[]flow{{outside: 10_000, handled: 10_000, each: 10 * time.Millisecond}}, []int{16},
		},
		"no load, no workers but the least": {
			policy.DS2{}, []controller.StageStats{pool(16, 2, 100)}, []flow{{}}, []int{2},
		},
		"a stage whose handlers have not returned keeps its workers": {
			policy.DS2{}, []controller.StageStats{pool(16, 2, 100)}, []flow{{outside: 10}}, []int{16},
		},
		"half of the commands come back": { // 100/s from outside are 200/s in all
			policy.DS2{Growth: 9, Utilization: 1}, []controller.StageStats{wide},
			[]flow{{outside: 1000, from: map[int]uint64{0: 250}, handled: 500, each: 20 * time.Millisecond}}, []int{4},
		},
		"a loop of two": { // 100/s enter the first, and 9 of 10 that the second handles come back: 1000/s each
			policy.DS2{Growth: 99, Utilization: 1}, []controller.StageStats{wide, wide},
			[]flow{
				{outside: 1000, from: map[int]uint64{1: 900}, handled: 1000, each: 2 * time.Millisecond},
				{from: map[int]uint64{0: 1000}, handled: 1000, each: 4 * time.Millisecond},
			}, []int{2, 4},
		},
		"a loop without an end grows step by step": {
			policy.DS2{}, []controller.StageStats{wide},
			[]flow{{outside: 1000, from: map[int]uint64{0: 1000}, handled: 500, each: 20 * time.Millisecond}}, []int{2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			row.law.Warmup = -1
			require.NoError(t, row.law.Check())
			f := newRow(row.law.New(), row.stages...)
			tenSeconds(f, row.flows...)
			require.NoError(t, f.err)
			require.Equal(t, row.want, workersOf(f), "%v", f.journal.Entries())
		})
	}
}

func TestDS2SaysWhatItHasMeasured(t *testing.T) {
	f := newRow(policy.DS2{Warmup: -1}.New(), pool(1, 1, 9))
	tenSeconds(f, flow{outside: 1000, handled: 500, each: 10 * time.Millisecond})
	require.Equal(t, "load 100/s of 10ms each at 70%, 0.5 busy now", f.journal.Entries()[0].Why)
}

func TestDS2OnlyMeasuresInItsWarmup(t *testing.T) {
	busy := flow{outside: 10_000, handled: 1000, each: 10 * time.Millisecond}
	f := newRow(policy.DS2{}.New(), pool(1, 1, 100))
	for _, want := range []int{1, 1, 2, 4, 8, 15, 15} {
		tenSeconds(f, busy)
		require.Equal(t, want, f.stages[0].Workers)
	}
}

// What another policy has left behind was counted in an unknown time.
func TestDS2TakesOverFromAnotherPolicy(t *testing.T) {
	a, b := pool(1, 1, 100), pool(1, 1, 100)
	a.Total = controller.Counters{Accepted: 1e9, OK: 1e9, Busy: 1e12}
	b.Total, b.Before, b.Inflows = a.Total, []controller.StageID{0}, []uint64{1e9}
	f := newRow(policy.DS2{Warmup: -1, Growth: 100}.New(), a, b)
	tenSeconds(f, flow{outside: 1000, handled: 1000, each: 10 * time.Millisecond},
		flow{from: map[int]uint64{0: 3000}, handled: 3000, each: 10 * time.Millisecond})
	require.Equal(t, []int{2, 5}, workersOf(f))
}

// While no command comes the law remembers the busy time of a command and the ratios of the edges: the first commands are enough.
func TestDS2RemembersTheServiceTimeAndTheEdges(t *testing.T) {
	f := newRow(policy.DS2{Warmup: -1, Growth: 100}.New(), pool(1, 1, 100), pool(1, 1, 100))
	tenSeconds(f, flow{outside: 1000, handled: 1000, each: 10 * time.Millisecond},
		flow{from: map[int]uint64{0: 3000}, handled: 3000, each: 10 * time.Millisecond})
	require.Equal(t, []int{2, 5}, workersOf(f))
	for range 9 {
		tenSeconds(f, flow{}, flow{})
	}
	require.Equal(t, []int{1, 1}, workersOf(f))
	tenSeconds(f, flow{outside: 1000}, flow{})
	require.Equal(t, []int{2, 5}, workersOf(f))
}

// A low load is not believed while the workers are busy, or a queue is half full (FLINK-38538).
func TestDS2TakesNoWorkerFromABusyStage(t *testing.T) {
	for name, st := range map[string]struct {
		queue int
		each  time.Duration
	}{
		"busy for 80 % of their time": {0, 80 * time.Millisecond},
		"half of the queue is full":   {512, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRow(policy.DS2{Warmup: -1}.New(), pool(10, 1, 100))
			f.stages[0].QueueLen = st.queue
			tenSeconds(f, flow{outside: 10, handled: 1000, each: st.each})
			require.Equal(t, []int{10}, workersOf(f))
			f.stages[0].QueueLen = 0
			tenSeconds(f, flow{outside: 10, handled: 10, each: st.each})
			require.Equal(t, []int{1}, append(workersOf(f)[:0], min(f.stages[0].Workers, 1)))
			require.Less(t, f.stages[0].Workers, 10)
		})
	}
}

// A worker that waits for a stage ahead is not short of time, so its stage gets the workers for its load and no more
// (FLINK-30652). And it is given that only if the stage ahead grows, too.
func TestDS2CountsNoBlockedTime(t *testing.T) {
	behind, ahead := pool(2, 1, 100), pool(1, 1, 100)
	behind.Next = []controller.StageID{1}
	f := newRow(policy.DS2{Warmup: -1, Growth: 100}.New(), behind, ahead)
	f.stages[0].Bound = true
	held := []flow{
		{outside: 10_000, handled: 1000, each: 2 * time.Millisecond},
		{from: map[int]uint64{0: 1000}, handled: 1000, each: 10 * time.Millisecond},
	}
	tenSeconds(f, held...)
	require.Equal(t, []int{3, 15}, workersOf(f), "1000/s of 2 ms, and of 10 ms")

	f = newRow(policy.DS2{Warmup: -1, Growth: 100}.New(), behind, ahead)
	f.stages[0].Bound, f.stages[1].MaxWorkers = true, 1
	tenSeconds(f, held...)
	require.Equal(t, []int{2, 1}, workersOf(f), "the stage ahead may not grow")
}

func TestDS2SharesABudgetByWhatEachNeeds(t *testing.T) {
	steady := func(perSecond uint64, each time.Duration) flow {
		return flow{outside: 10 * perSecond, handled: 10 * perSecond, each: each}
	}
	for name, row := range map[string]struct {
		budget int
		least  int
		flows  []flow
		want   []int
	}{
		"enough for all":              {30, 1, []flow{steady(1000, 7*time.Millisecond), steady(1000, 14*time.Millisecond)}, []int{10, 20}},
		"half of what they need":      {15, 1, []flow{steady(1000, 7*time.Millisecond), steady(1000, 14*time.Millisecond)}, []int{5, 10}},
		"one has little to do":        {15, 1, []flow{steady(10, 7*time.Millisecond), steady(1000, 14*time.Millisecond)}, []int{1, 14}},
		"fewer than they must have":   {1, 3, []flow{steady(1000, 7*time.Millisecond), steady(1000, 14*time.Millisecond)}, []int{3, 3}},
		"one worker more for equals":  {5, 1, []flow{steady(1000, 7*time.Millisecond), steady(1000, 7*time.Millisecond)}, []int{3, 2}},
		"nothing to do for the other": {5, 1, []flow{{}, steady(1000, 7*time.Millisecond)}, []int{1, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRow(policy.DS2{Warmup: -1, Growth: 100, Workers: row.budget}.New(), pool(row.least, row.least, 100), pool(row.least, row.least, 100))
			tenSeconds(f, row.flows...)
			require.Equal(t, row.want, workersOf(f))
			entries := len(f.journal.Entries())
			for range 5 {
				tenSeconds(f, row.flows...)
			}
			require.Equal(t, row.want, workersOf(f))
			require.Len(t, f.journal.Entries(), entries, "it is stable")
		})
	}
}

// The model gives out one worker after the other, to the pool with the fewest workers for its load.
func TestDS2SharesAsAModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stages []controller.StageStats
		var flows []flow
		for range rapid.IntRange(1, 6).Draw(t, "stages") {
			stages = append(stages, pool(1, 1, rapid.IntRange(1, 60).Draw(t, "most")))
			n := uint64(rapid.IntRange(1, 5000).Draw(t, "load"))
			flows = append(flows, flow{outside: n, handled: n, each: time.Duration(rapid.IntRange(1, 100).Draw(t, "ms")) * time.Millisecond})
		}
		budget := rapid.IntRange(1, 200).Draw(t, "budget")
		f := newRow(policy.DS2{Warmup: -1, Growth: 1000, Workers: budget}.New(), stages...)
		tenSeconds(f, flows...)
		need, wants, have, left := make([]float64, len(stages)), make([]int, len(stages)), make([]int, len(stages)), budget
		for i, fl := range flows {
			need[i] = float64(fl.handled) * fl.each.Seconds() / 10
			wants[i] = min(max(int(math.Ceil(need[i]/0.7*(1-1e-9))), 1), f.stages[i].MaxWorkers)
			have[i] = 1
			left--
		}
		for ; left > 0; left-- {
			poorest := -1
			for i := range have {
				if have[i] < wants[i] && (poorest < 0 || float64(have[i])/need[i] < float64(have[poorest])/need[poorest]) {
					poorest = i
				}
			}
			if poorest < 0 {
				break
			}
			have[poorest]++
		}
		got, level := workersOf(f), func(n []int) (least float64) {
			least = math.Inf(1)
			for i := range n {
				if n[i] < wants[i] {
					least = min(least, float64(n[i])/need[i])
				}
			}
			return least
		}
		sum := 0
		for i := range got {
			sum += got[i]
			require.LessOrEqual(t, got[i], wants[i])
		}
		require.LessOrEqual(t, sum, max(budget, len(stages)))
		require.GreaterOrEqual(t, level(got)*1.1+1e-9, min(level(have), 1e9), "%v, and the model %v, for %v", got, have, need)
	})
}

// With any rates the workers stay within the bounds, grow at most twofold, and are enough in the end.
func TestDS2KeepsItsPromisesUnderAnyRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "stages")
		var stages []controller.StageStats
		for range n {
			stages = append(stages, anyStage(t))
		}
		f := newRow(policy.DS2{Warmup: -1, Workers: rapid.IntRange(0, 20).Draw(t, "budget")}.New(), stages...)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			flows := make([]flow, n)
			for i := range flows {
				flows[i] = flow{
					outside: uint64(rapid.IntRange(0, 1000).Draw(t, "outside")), handled: uint64(rapid.IntRange(0, 1000).Draw(t, "handled")),
					each: time.Duration(rapid.IntRange(0, 50).Draw(t, "ms")) * time.Millisecond,
					from: map[int]uint64{rapid.IntRange(-1, n).Draw(t, "from"): uint64(rapid.IntRange(0, 1000).Draw(t, "moved"))},
				}
				f.stages[i].QueueLen = rapid.IntRange(0, 130).Draw(t, "queue")
				f.stages[i].Paused = rapid.IntRange(0, 9).Draw(t, "paused") == 0
			}
			had := workersOf(f)
			tenSeconds(f, flows...)
			require.NoError(t, f.err)
			for i, st := range f.stages {
				require.GreaterOrEqual(t, st.Workers, st.MinWorkers)
				require.LessOrEqual(t, st.Workers, st.MaxWorkers)
				require.LessOrEqual(t, st.Workers, max(2*had[i], 1))
				if st.Paused {
					require.Equal(t, had[i], st.Workers)
				}
			}
		}
	})
}

// Stages that share a pool have one number of workers, for the sum of their loads.
func TestDS2ScalesASharedPoolByTheSumOfItsStages(t *testing.T) {
	a, b := pool(1, 1, 1), pool(1, 1, 1)
	a.Pool, b.Pool = "g", "g"
	f := newRow(policy.DS2{Warmup: -1, Growth: 100}.New(), a, b)
	f.pools = []controller.PoolStats{{Name: "g", Group: true, Workers: 1, MinWorkers: 1, MaxWorkers: 50, Stages: []controller.StageID{0, 1}}}
	tenSeconds(f, flow{outside: 10_000, handled: 1000, each: 7 * time.Millisecond},
		flow{from: map[int]uint64{0: 1000}, handled: 1000, each: 7 * time.Millisecond})
	require.Equal(t, 20, f.pools[0].Workers)
}

func TestDS2ReportsAllFaultsOfItsParameters(t *testing.T) {
	require.NoError(t, policy.DS2{}.Check())
	err := policy.DS2{Interval: -1, Utilization: 1.5, Growth: 1, Workers: -1}.Check()
	for _, want := range []string{"Interval", "Utilization 1.5", "Growth 1 is not above 1", "Workers -1"} {
		require.ErrorContains(t, err, want)
	}
	require.Error(t, policy.DS2{Utilization: math.NaN()}.Check())
}

func ExampleDS2() {
	// One edge of a line: each command of the first stage makes two for the second.
	c := policy.DS2{Interval: 10 * time.Second, Warmup: -1, Growth: 4}.New()
	s := &controller.Snapshot{Stages: []controller.StageStats{
		{ID: 0, Name: "parse", Workers: 2, MinWorkers: 1, MaxWorkers: 16},
		{ID: 1, Name: "save", Workers: 1, MinWorkers: 1, MaxWorkers: 16, Before: []controller.StageID{0}, Inflows: []uint64{0}},
	}}
	var d controller.Decisions
	_ = controller.Ask(c, controller.Event{Kind: controller.EventStart}, s, &d)
	s.At = 10 * time.Second
	s.Stages[0].Total = controller.Counters{Accepted: 5000, Forwarded: 2000, Busy: 20 * time.Second}
	s.Stages[1].Total = controller.Counters{Accepted: 4000, OK: 4000, Busy: 1 * time.Second}
	s.Stages[1].Inflows[0] = 4000
	_ = controller.Ask(c, controller.Event{Kind: controller.EventTick}, s, &d)
	changes, _ := controller.Settle("ds2", s, &d)
	for _, ch := range changes {
		fmt.Println(ch)
	}
	// Output:
	// 10s ds2: stage "parse": workers 2 to 8: load 500/s of 10ms each at 70%, 2.0 busy now
}
