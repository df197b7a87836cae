package policy_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// pool returns a stage with that many workers, within those bounds, all of them free.
func pool(workers, least, most int) controller.StageStats {
	return controller.StageStats{Workers: workers, MinWorkers: least, MaxWorkers: most}
}

// The listing's stage has 2 to 10 threads, a capacity of 100 events, and a tick every 2 s.
func TestT12_TheListingOfCruzGivesItsThreads(t *testing.T) {
	events := []int{0, 60, 60, 60, 60, 60, 60, 60, 60, 60, 50, 51}
	want := []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 9, 10}
	for name, inHand := range map[string]func(events, workers int) int{
		"all of them wait":          func(int, int) int { return 0 },
		"each worker has one":       func(events, workers int) int { return min(events, workers) },
		"all but one are in hand":   func(events, _ int) int { return max(0, events-1) },
		"all of them are in hand":   func(events, _ int) int { return events },
		"half are, and half are in": func(events, _ int) int { return events / 2 },
	} {
		t.Run(name, func(t *testing.T) {
			st := pool(2, 2, 10)
			st.QueueCap = 100
			f := newRow(policy.SEDA{Preset: policy.Cruz}.New(), st)
			threads := make([]int, 0, len(events))
			for _, n := range events {
				f.now += 2 * time.Second
				st := &f.stages[0]
				st.InHand = inHand(n, st.Workers)
				st.QueueLen, st.Busy = n-st.InHand, min(st.InHand, st.Workers)
				f.ask(controller.EventTick)
				threads = append(threads, st.Workers)
			}
			require.NoError(t, f.err)
			require.Equal(t, want, threads)
		})
	}
}

func TestSEDAFollowsTheQueue(t *testing.T) {
	small := func(capacity int) controller.StageStats {
		st := pool(4, 1, 9)
		st.QueueCap = capacity
		return st
	}
	restless := policy.SEDA{Samples: 1, Cooldown: policy.NoCooldown}
	tests := map[string]struct {
		law   policy.SEDA
		stage controller.StageStats
		queue []int
		want  []int
	}{
		"two ticks in a row, then two seconds of cooldown": {policy.SEDA{}, pool(4, 1, 9), during(7, 64), []int{4, 5, 5, 6, 6, 7, 7}},
		"below the threshold it waits":                     {policy.SEDA{}, pool(4, 1, 9), during(7, 63), during(7, 4)},
		"one tick is a burst":                              {policy.SEDA{}, pool(4, 1, 9), []int{900, 0, 900, 0, 900}, during(5, 4)},
		"it stops at the maximum":                          {restless, pool(8, 1, 9), during(3, 900), []int{9, 9, 9}},
		"five seconds without work cost one worker":        {policy.SEDA{}, pool(4, 1, 9), during(12, 0), []int{4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 2, 2}},
		"one waiting command is work":                      {policy.SEDA{}, pool(4, 1, 9), []int{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3}},
		"it stops at the minimum":                          {policy.SEDA{Idle: time.Second}, pool(4, 3, 9), during(9, 0), []int{4, 3, 3, 3, 3, 3, 3, 3, 3}},
		"the cooldown applies to removing, too":            {policy.SEDA{Idle: time.Second, Cooldown: 3 * time.Second}, pool(9, 1, 9), during(8, 0), []int{9, 8, 8, 8, 7, 7, 7, 6}},
		"capacity of one":                                  {restless, small(1), []int{1, 0}, []int{5, 5}},
		"half of a small capacity, rounded up":             {restless, small(5), []int{2, 3}, []int{4, 5}},
		"no capacity is stated":                            {restless, small(-1), []int{0, 0}, []int{4, 4}},
		"a fixed pool is left alone":                       {restless, pool(4, 4, 4), append(during(3, 900), during(9, 0)...), during(12, 4)},
		"below the minimum it is brought back at once":     {policy.SEDA{}, pool(2, 5, 9), []int{9, 9}, []int{5, 5}},
		"above the maximum it is brought back at once":     {policy.SEDA{}, pool(12, 5, 9), []int{900, 9}, []int{9, 9}},
		"it never goes below one":                          {policy.SEDA{Idle: 1}, pool(2, 0, 9), during(5, 0), []int{2, 1, 1, 1, 1}},

		"cruz: 49 waiting cost a worker":          {policy.SEDA{Preset: policy.Cruz}, pool(5, 2, 10), during(5, 49), []int{4, 3, 2, 2, 2}},
		"cruz: a custom threshold":                {policy.SEDA{Preset: policy.Cruz, Threshold: 10}, pool(5, 2, 10), []int{10, 9}, []int{6, 5}},
		"cruz: custom samples":                    {policy.SEDA{Preset: policy.Cruz, Samples: 2}, pool(5, 2, 10), []int{60, 60, 60}, []int{5, 6, 6}},
		"cruz: a full queue is hot":               {policy.SEDA{Preset: policy.Cruz}, small(20), []int{20, 19}, []int{5, 4}},
		"welsh: adds at each fourth tick":         {policy.SEDA{Preset: policy.Welsh}, pool(4, 1, 20), during(9, 1000), []int{4, 4, 4, 5, 5, 5, 5, 6, 6}},
		"welsh: 999 are not enough":               {policy.SEDA{Preset: policy.Welsh}, pool(4, 1, 20), during(8, 999), during(8, 4)},
		"welsh: removes at each tick":             {policy.SEDA{Preset: policy.Welsh}, pool(4, 1, 20), during(6, 0), []int{4, 3, 2, 1, 1, 1}},
		"welsh: a full queue is hot, half is not": {policy.SEDA{Preset: policy.Welsh}, small(50), []int{49, 49, 49, 49, 50, 50, 50, 50}, []int{4, 4, 4, 4, 4, 4, 4, 5}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, tt.law.Check())
			f := newRow(tt.law.New(), tt.stage)
			require.Equal(t, tt.want, f.run(tt.queue...))
			require.NoError(t, f.err)
		})
	}
}

func TestSEDARemovesNoWorkerWhileAllAreBusy(t *testing.T) {
	f := newRow(policy.SEDA{}.New(), pool(4, 1, 9))
	f.stages[0].Busy = 4
	require.Equal(t, during(9, 4), f.run(during(9, 0)...))
	f.stages[0].Busy = 3
	require.Equal(t, []int{4, 4, 4, 4, 4, 3}, f.run(during(6, 0)...), "the time counts from the first tick at which one is free")
}

func TestSEDAStatesItsReasons(t *testing.T) {
	tests := map[string]struct {
		law   policy.SEDA
		queue []int
		want  string
	}{
		"hot":               {policy.SEDA{}, []int{70, 80}, "queue 80 >= 64 for 2 samples"},
		"idle":              {policy.SEDA{}, during(6, 0), "10 of 10 workers idle for 5s"},
		"many events, cruz": {policy.SEDA{Preset: policy.Cruz}, []int{60}, "events 60 >= 51 for 1 sample"},
		"few events, cruz":  {policy.SEDA{Preset: policy.Cruz}, []int{50}, "events 50 < 51 for 1 sample"},
		"hot, welsh":        {policy.SEDA{Preset: policy.Welsh}, during(4, 1000), "queue 1000 >= 1000 for 4 samples"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newRow(tt.law.New(), pool(10, 5, 20))
			f.run(tt.queue...)
			require.Len(t, f.journal.Entries(), 1)
			require.Equal(t, tt.want, f.journal.Entries()[0].Why)
		})
	}
}

func TestSEDAAsksForTicksAtTheStartAndOnlyThen(t *testing.T) {
	for law, want := range map[policy.SEDA]time.Duration{
		{}:                          time.Second,
		{Preset: policy.Cruz}:       2 * time.Second,
		{Preset: policy.Welsh}:      2 * time.Second,
		{Interval: 5 * time.Second}: 5 * time.Second,
		{Preset: policy.Cruz, Interval: time.Minute}: time.Minute,
	} {
		requireTicksFromTheStart(t, law, want)
	}
}

func requireTicksFromTheStart(t *testing.T, law controller.Policy, want time.Duration) {
	t.Helper()
	s := &controller.Snapshot{Stages: []controller.StageStats{{Name: "parse", QueueLen: 500, Workers: 2, MaxWorkers: 9}}}
	c, d := law.New(), controller.Decisions{}
	for _, ask := range []struct {
		kind controller.EventKind
		want time.Duration
	}{{controller.EventStart, want}, {controller.EventStop, 0}, {99, 0}} {
		require.NoError(t, controller.Ask(c, controller.Event{Kind: ask.kind}, s, &d))
		require.Equal(t, ask.want, d.Interval())
		_, _, ok := d.Wants(0)
		require.False(t, ok, "nothing has happened yet")
	}
}

func TestSEDAIdentifiesStagesByNameAndForgetsRemovedOnes(t *testing.T) {
	f := newRow(policy.SEDA{}.New(), withCapacities(1024, 1024)...)
	f.run(900)
	f.stages = f.stages[1:]
	f.stages[0].ID = 0
	require.Equal(t, []int{11}, f.run(900), "it moved to the first place, and this is its second tick")
	f.stages = []controller.StageStats{furnished(controller.StageStats{}, 0)}
	require.Equal(t, []int{10, 11}, f.run(900, 900), "a new stage has the name of an old one")
}

func TestCheckReturnsAllFaultsOfSEDA(t *testing.T) {
	tests := map[string]struct {
		law  policy.SEDA
		want []string
	}{
		"the defaults are fine": {policy.SEDA{}, nil},
		"cruz is fine":          {policy.SEDA{Preset: policy.Cruz}, nil},
		"welsh is fine":         {policy.SEDA{Preset: policy.Welsh, Idle: time.Hour}, nil},
		"no cooldown is fine":   {policy.SEDA{Cooldown: policy.NoCooldown}, nil},
		"the greatest are fine": {policy.SEDA{Threshold: math.MaxInt, Samples: math.MaxInt, Interval: math.MaxInt64, Cooldown: math.MaxInt64, Idle: math.MaxInt64}, nil},
		"an unknown preset":     {policy.SEDA{Preset: "crux"}, []string{`unknown Preset "crux"; known are cruz, welsh`}},
		"idle has no effect":    {policy.SEDA{Preset: policy.Cruz, Idle: time.Second}, []string{"Idle 1s has no effect with the preset cruz"}},
		"all at once": {
			policy.SEDA{Threshold: -1, Samples: -2, Interval: -3, Cooldown: -4, Idle: -5},
			[]string{"Threshold -1", "Samples -2", "Interval -3ns", "Cooldown -4ns", "Idle -5ns"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { requireFaults(t, tt.law, "policy: seda: ", tt.want) })
	}
}

func requireFaults(t *testing.T, law controller.Policy, prefix string, want []string) {
	t.Helper()
	err := law.Check()
	if want == nil {
		require.NoError(t, err)
		return
	}
	for _, w := range want {
		require.ErrorContains(t, err, prefix+w)
	}
	require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), len(want))
}

// This shows the dissertation's criticism: around its threshold the listing undoes at one tick what it did at the last.
// The default law leaves such a load alone, and a load that comes and goes faster than Idle costs no worker.
func TestSEDADoesNotSwingWhereTheListingOfCruzDoes(t *testing.T) {
	here, original := policy.SEDA{}, policy.SEDA{Preset: policy.Cruz}
	tests := map[string]struct {
		around func(law policy.SEDA) []int // 40 ticks
		here   int                         // how often the direction changes
	}{
		"a command more, a command less": {func(law policy.SEDA) []int {
			at := map[policy.SEDA]int{here: 64, original: 51}[law]
			return slices.Repeat([]int{at - 1, at}, 20)
		}, 0},
		"full, empty": {func(policy.SEDA) []int { return slices.Repeat([]int{1024, 0}, 20) }, 0},
		"full for a while, empty for a while": {func(policy.SEDA) []int {
			return slices.Repeat(append(during(4, 1024), during(4, 0)...), 5)
		}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.here, turns(newRow(here.New(), pool(5, 1, 10)).run(tt.around(here)...)), "here")
			require.GreaterOrEqual(t, turns(newRow(original.New(), pool(5, 1, 10)).run(tt.around(original)...)), 9, "the listing")
		})
	}
}

// turns counts the changes of direction.
func turns(ns []int) (n int) {
	last := 0
	for i := 1; i < len(ns); i++ {
		step := ns[i] - ns[i-1]
		if step*last < 0 {
			n++
		}
		if step != 0 {
			last = step
		}
	}
	return n
}

func anySEDA(t *rapid.T) policy.SEDA {
	law := policy.SEDA{
		Preset:    rapid.SampledFrom([]policy.Preset{"", policy.Cruz, policy.Welsh}).Draw(t, "preset"),
		Threshold: rapid.IntRange(0, 100).Draw(t, "threshold"),
		Samples:   rapid.IntRange(0, 4).Draw(t, "samples"),
		Cooldown:  rapid.SampledFrom([]time.Duration{0, policy.NoCooldown, time.Millisecond, 5 * time.Second}).Draw(t, "cooldown"),
	}
	if law.Preset != policy.Cruz {
		law.Idle = time.Duration(rapid.IntRange(0, 9000).Draw(t, "idle")) * time.Millisecond
	}
	require.NoError(t, law.Check())
	return law
}

func TestSEDAKeepsItsPromisesUnderAnyLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := anySEDA(t)
		f := newRow(law.New(), rapid.SliceOfN(rapid.Custom(anyStage), 1, 4).Draw(t, "stages")...)
		last := map[controller.StageID]time.Duration{}
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			f.now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
			for i := range f.stages {
				f.anyLoad(t, i)
			}
			before := len(f.journal.Entries())
			f.ask(controller.EventTick)
			require.NoError(t, f.err)
			turned := map[controller.StageID]bool{}
			for _, c := range f.journal.Entries()[before:] {
				require.False(t, turned[c.Stage], "one step for each stage at each tick")
				turned[c.Stage] = true
				requireAStep(t, f, c)
				requireSEDAsReason(t, law, f.stages[c.Stage], c)
				if at, ok := last[c.Stage]; ok {
					require.GreaterOrEqual(t, c.At-at, law.Cooldown)
				}
				last[c.Stage] = c.At
			}
		}
	})
}

// anyLoad draws anything that can happen to a stage between two ticks.
func (f *row) anyLoad(t *rapid.T, stage int) {
	st := &f.stages[stage]
	st.QueueLen = rapid.SampledFrom([]int{0, 0, 0, 1, 10, 60, 64, 120}).Draw(t, "queue")
	st.Busy = rapid.IntRange(0, st.Workers).Draw(t, "busy")
	st.InHand = st.Busy * rapid.IntRange(1, 3).Draw(t, "batch")
	st.Window = controller.Counters{
		Accepted: rapid.Uint64Range(0, 100).Draw(t, "accepted"), OK: rapid.Uint64Range(0, 100).Draw(t, "ok"),
	}
}

func requireAStep(t *rapid.T, f *row, c controller.Change) {
	st := f.stages[c.Stage]
	require.GreaterOrEqual(t, c.After, max(1, st.MinWorkers))
	require.LessOrEqual(t, c.After, st.MaxWorkers)
	require.Contains(t, []int{1, -1}, by(c), "one step")
	require.NotContains(t, c.Why, "limited to the", "the law stays within the bounds by itself")
}

func requireSEDAsReason(t *rapid.T, law policy.SEDA, st controller.StageStats, c controller.Change) {
	switch {
	case by(c) > 0:
		require.Positive(t, st.QueueLen+st.InHand, "a worker is added only when there are commands")
	case law.Preset != policy.Cruz:
		require.Zero(t, st.QueueLen, "no worker is removed while commands wait")
		require.Less(t, st.Busy, c.Before)
	}
}

// By default, a worker that was added stays for at least as long as Idle.
func TestSEDANeverRemovesAWorkerThatItHasJustAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := policy.SEDA{}
		f := newRow(law.New(), pool(3, 1, 9))
		f.run(rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 0, 63, 64}), 1, 80).Draw(t, "queue")...)
		hired := -time.Hour
		for _, c := range f.journal.Entries() {
			if by(c) > 0 {
				hired = c.At
				continue
			}
			require.Greater(t, c.At-hired, 5*time.Second)
		}
	})
}

// "Novos eventos serão descartados até que existam menos de 100 eventos acumulados."
func TestTheQueuesOfTheListingOfCruzDiscardBeyond100(t *testing.T) {
	st := pool(2, 2, 10)
	st.QueueCap = 256
	paused := st
	paused.Paused = true
	f := newRow(policy.SEDA{Preset: policy.Cruz}.New(), st, st, paused)
	require.NoError(t, f.err)
	gate := f.stages[0].Admission.Gate
	require.NotNil(t, gate)
	require.Equal(t, gate, f.stages[1].Admission.Gate, "each stage has one")
	require.Nil(t, f.stages[2].Admission.Gate, "a paused stage is left alone")
	f.stages[2].Paused = false
	f.ask(controller.EventTopology)
	require.Equal(t, gate, f.stages[2].Admission.Gate)
	for queued, capacity := range map[int]int{0: 256, 50: 256, 99: 100, 20: 20} {
		require.NoError(t, gate.Admit(1, queued, capacity), queued)
	}
	for queued, capacity := range map[int]int{100: 256, 101: 256, 5000: 0} {
		require.ErrorContains(t, gate.Admit(1, queued, capacity), "discarded", queued)
	}

	for _, law := range []policy.SEDA{{}, {Preset: policy.Welsh}} {
		require.False(t, claims(law, controller.KnobGate))
		require.Nil(t, newRow(law.New(), st).stages[0].Admission.Gate, law.Name())
	}
}
