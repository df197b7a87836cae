package leda_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/leda"
)

// The listings of chapter 4 of the dissertation, as scripts. They show that the interface supports every policy of that
// chapter; where a listing could not have run, it is fixed, and the fix is named. These scripts are for reading; for
// use, take the policies of package policy.
//
// All listings are fixed in three places. The pipeline makes the stages, so leda.stage becomes l.Stages. A stage has
// instances from the start, so addInstances(stage, n) becomes instances(l, stage, n). And addInstances,
// getInstancesCount and lstage of the listings become add, getInstanceCount and leda.

// instances is addInstances: it sets the total number.
func instances(l *leda.Leda, st leda.Stage, n int) {
	has := l.Instances.GetInstanceCount(st)
	_ = l.Instances.Add(st, max(n-has, 0))
	_ = l.Instances.Kill(st, max(has-n, 0))
}

// pools gives each stage a pool of two. Fixed: pool.new() and pool.add(pool, 2) are pool.new(2), and setPool(stage,
// pool) is setPool(pool, stage), as in the appendix.
func pools(l *leda.Leda) {
	for _, st := range l.Stages() {
		instances(l, st, 10)
		_ = l.Pool.SetPool(l.Pool.New(2), st)
	}
}

// oneForAll is how the listings with visits start: two workers in the global pool. Fixed: pool.add(2) names the pool.
func oneForAll(l *leda.Leda, order []leda.Stage) {
	l.UsePrivateQueues()
	_ = l.Pool.Add(leda.Global, 2)
	for _, st := range l.Stages() {
		instances(l, st, 2)
	}
	_ = l.Scheduler.VisitOrder(order)
}

// sedaListing is section 4.2.
func sedaListing(l *leda.Leda) {
	for _, st := range l.Stages() {
		_ = l.SetQueueCapacity(st, 100)
	}
	pools(l)
	_ = l.Monitoring.AddTimer(func() {
		for _, st := range l.Stages() {
			busy := l.Instances.GetInstanceCount(st) - l.Instances.GetFreeInstancesCount(st)
			events := l.Monitoring.GetQueueSize(st) + busy
			pool := l.Pool.GetPool(st)
			threads := l.Pool.GetThreadsCount(pool)
			if events > 50 {
				if threads < 10 {
					_ = l.Pool.Add(pool, 1)
				}
			} else if threads > 2 {
				_ = l.Pool.Kill(pool, 1)
			}
		}
	}, 2*time.Second)
}

// cohortListing is section 4.3. Fixed: the helper's order is a new list, where the program appended to the list of
// stages.
func cohortListing(l *leda.Leda) {
	stages := l.Stages()
	order := slices.Clone(stages)
	for i := len(stages) - 2; i >= 1; i-- {
		order = append(order, stages[i])
	}
	oneForAll(l, order)
}

// lrbListing is section 4.4. Fixed: where nothing arrived, the listing would divide by zero, and here the order stays;
// a single stage has no table; and visits are counted in integers, since in Lua's numbers a third of fifteen, rounded
// up, is six.
func lrbListing(l *leda.Leda) {
	oneForAll(l, l.Stages())
	_ = l.Monitoring.FireLastFocused(func() {
		var table []visited
		total := 0
		for _, st := range l.Stages() {
			load := l.Monitoring.GetInputCount(st)
			total += load
			table = append(table, visited{stage: st, load: load})
			_ = l.Monitoring.ResetStatistics(st)
		}
		if total == 0 || len(table) < 2 {
			return
		}
		for i := range table {
			table[i].visits = (table[i].load*3*len(table) + total - 1) / total
		}
		slices.SortStableFunc(table, func(a, b visited) int { return cmp.Compare(b.visits, a.visits) })
		_ = l.Scheduler.VisitOrder(lrbOrder(table))
	})
}

type visited struct {
	stage        leda.Stage
	load, visits int
}

// lrbOrder is the helper of the listing, LRB: a walk over the table, by the example of section 3.3 and the program.
// After each visit it is the first stage's turn again, or, after a visit to the first, the second's; a stage without
// visits left is skipped. The walk ends when the first and the last stage have had their visits, so it may leave out
// stages in between; here they are visited at the end of the order all the same.
func lrbOrder(table []visited) []leda.Stage {
	var order []leda.Stage
	last := len(table) - 1
	for i := 0; table[0].visits > 0 || table[last].visits > 0; {
		if table[i].visits == 0 {
			i = (i + 1) % len(table)
			continue
		}
		order = append(order, table[i].stage)
		table[i].visits--
		if i == 0 {
			i = 1
		} else {
			i = 0
		}
	}
	return order
}

// dbrListing is section 4.5. Fixed: the rates are read before the stages are sorted, so that they cannot change
// meanwhile, and equal ones keep their order.
func dbrListing(l *leda.Leda) {
	stages := l.Stages()
	oneForAll(l, stages)
	_ = l.Scheduler.RestartAtIndex(1)
	_ = l.Monitoring.FireLastFocused(func() {
		stages = byRate(l)
		for _, st := range stages {
			_ = l.Monitoring.ResetStatistics(st)
		}
		_ = l.Scheduler.VisitOrder(stages)
	})
}

// byRate orders stages by the listings' rate of service: how many of a hundred commands were processed. A stage without
// input has the rate 0, and comes first.
func byRate(l *leda.Leda) []leda.Stage {
	stages := l.Stages()
	rates := make(map[leda.Stage]float64)
	for _, st := range stages {
		if in := l.Monitoring.GetInputCount(st); in != 0 {
			rates[st] = float64(l.Monitoring.GetProcessedCount(st)) * 100 / float64(in)
		}
	}
	slices.SortStableFunc(stages, func(a, b leda.Stage) int { return cmp.Compare(rates[a], rates[b]) })
	return stages
}

// srptListing is the first of section 4.6, by the global queue.
func srptListing(l *leda.Leda) {
	_ = l.Pool.Add(leda.Global, 2)
	for i, st := range l.Stages() {
		instances(l, st, 2)
		_ = l.Scheduler.SetPriority(st, i+1)
	}
}

// srptPrivateListing is the second of section 4.6, by private queues.
func srptPrivateListing(l *leda.Leda) {
	backwards := l.Stages()
	slices.Reverse(backwards)
	oneForAll(l, backwards)
	_ = l.Scheduler.RestartAtIndex(1)
}

// colorListing is section 4.7, which has no listing: a single queue is the default. It has two workers, like the other
// listings.
func colorListing(l *leda.Leda) { _ = l.Pool.Add(leda.Global, 2) }

// stealingListing is section 4.8. Fixed: the thief comes before the victim in the order; otherwise one of three stages
// would steal from itself, and with two stages the second steal would undo the first. And the comment says descending,
// the text and the code ascending.
func stealingListing(l *leda.Leda) {
	pools(l)
	_ = l.Monitoring.AddTimer(func() {
		stages := byRate(l)
		for first, last := 0, len(stages)-1; first < 2 && first < last; first, last = first+1, last-1 {
			thief, victim := stages[first], stages[last]
			thiefs := l.Pool.GetThreadsCount(l.Pool.GetPool(thief))
			victims := l.Pool.GetThreadsCount(l.Pool.GetPool(victim))
			if victims > 1 && l.Instances.GetInstanceCount(thief) >= thiefs+1 {
				_ = l.Scheduler.Steal(thief, victim, 1)
			}
		}
		for _, st := range stages {
			_ = l.Monitoring.ResetStatistics(st)
		}
	}, 10*time.Second)
}

// load lets a stage take in and process that many commands.
func (w *world) load(accepted, processed []int) {
	for i := range w.Stages {
		w.Stages[i].Total.Accepted += uint64(accepted[i])
		w.Stages[i].Total.OK += uint64(processed[i])
	}
}

func TestTheListingOfSEDAGivesItsThreads(t *testing.T) {
	tests := map[string]struct {
		queued, inHand int // from the second tick to the tenth, then 50 in all, then 51
	}{
		"queued":             {60, 0},
		"queued and in hand": {51, 9},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := start(t, 3, sedaListing)
			require.Equal(t, "leda-1:2 leda-2:2 leda-3:2", w.pools())
			require.Equal(t, 2*time.Second, w.every)
			var threads []int
			for i := range 12 {
				st := w.stage(2)
				st.QueueLen, st.FreeInstances = tt.queued, st.Instances-tt.inHand
				switch i {
				case 0:
					st.QueueLen, st.FreeInstances = 0, st.Instances
				case 10:
					st.QueueLen, st.FreeInstances = 50-tt.inHand, st.Instances-tt.inHand
				case 11:
					st.QueueLen = 51 - tt.inHand
				}
				w.tick(w.every)
				threads = append(threads, w.Pool("leda-2").Workers)
			}
			require.Equal(t, []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 9, 10}, threads)
			require.Equal(t, "leda-1:2 leda-2:10 leda-3:2", w.pools())
		})
	}
}

func TestTheListingOfCohortGoesUpAndDown(t *testing.T) {
	require.Empty(t, start(t, 0, cohortListing).Stages, "having no stages is legal")
	for i, order := range []string{"1", "1 2", "1 2 3 2", "1 2 3 4 3 2"} {
		stages := i + 1
		w := start(t, stages, cohortListing)
		require.Equal(t, order, w.order())
		require.Equal(t, strings.TrimSpace(strings.Repeat("leda:2 ", stages)), w.pools())
		require.Equal(t, controller.Polled, w.Pool("leda").Dispatch)
		require.Equal(t, 2, w.stage(1).Instances)
	}
	require.Equal(t, "1(3) 2(3) 3(3) 4(3) 3(0) 2(0) | 1(0) 2(0) 3(0) 4(0) 3(0) 2(0) |", start(t, 4, cohortListing).ways(3, 2))
}

func TestTheListingOfLRBVisitsByArrivals(t *testing.T) {
	tests := map[string]struct {
		arrived []int
		order   string
	}{
		"the example of the text":          {[]int{50, 30, 20}, "1 2 1 2 1 2 1 3 1 3"},
		"the same in another order":        {[]int{20, 50, 30}, "2 3 2 3 2 3 2 1 2 1"},
		"one stage has nearly everything":  {[]int{90, 5, 5}, "1 2 1 3 1 1 1 1 1 1 1"},
		"one stage has nothing":            {[]int{50, 50, 0}, "1 2 1 2 1 2 1 2 1"},
		"the walk leaves a busy stage out": {[]int{40, 30, 30, 0}, "1 2 1 2 1 2 1 2 1"},
		"a third of fifteen is five":       {[]int{2, 1, 0, 0, 0}, "1 2 1 2 1 2 1 2 1 2 1 1 1 1 1"},
		"nothing arrived":                  {[]int{0, 0, 0}, "1 2 3"},
		"one stage":                        {[]int{7}, "1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := start(t, len(tt.arrived), lrbListing)
			w.load(tt.arrived, tt.arrived)
			w.inTurn(time.Second)
			require.Equal(t, tt.order, w.order())
		})
	}
}

func TestTheListingOfLRBCountsArrivalsSinceTheLastRound(t *testing.T) {
	w := start(t, 3, lrbListing)
	w.load([]int{900, 0, 0}, []int{0, 0, 0})
	w.inTurn(time.Second)
	require.Equal(t, "1 1 1 1 1 1 1 1 1", w.order())
	w.load([]int{50, 30, 20}, []int{0, 0, 0})
	w.inTurn(time.Second)
	require.Equal(t, "1 2 1 2 1 2 1 3 1 3", w.order())
}

func TestTheListingOfDBRVisitsTheSlowestFirst(t *testing.T) {
	tests := map[string]struct {
		accepted, processed []int
		order               string
	}{
		"by what was processed":              {[]int{10, 10, 10}, []int{10, 4, 7}, "2 3 1"},
		"an idle stage comes before all":     {[]int{10, 10, 10, 0}, []int{10, 4, 7, 0}, "4 2 3 1"},
		"a rate is not a number of commands": {[]int{1000, 10}, []int{990, 10}, "1 2"},
		"nothing arrived":                    {[]int{0, 0, 0}, []int{0, 0, 0}, "1 2 3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := start(t, len(tt.accepted), dbrListing)
			w.load(tt.accepted, tt.processed)
			w.inTurn(time.Second)
			require.Equal(t, tt.order, w.order())
			require.True(t, w.plan().Restart)
			require.Zero(t, w.plan().RestartAt)
		})
	}
}

// The order often stays the same. Then the plan stays, and has no further event; the listing continues all the same.
func TestTheListingOfDBRContinuesWhereTheOrderStays(t *testing.T) {
	w := start(t, 3, dbrListing)
	w.inTurn(time.Second)
	require.Equal(t, "1 2 3", w.order())
	require.Empty(t, w.changes)

	w.load([]int{10, 10, 10}, []int{10, 4, 7})
	w.tick(w.every)
	require.Equal(t, "1 2 3", w.order(), "no worker has come to the end again")
	w.Pool("leda").Rounds++
	w.tick(w.every)
	require.Equal(t, "2 3 1", w.order())
}

func TestTheListingsOfSRPTServeTheLastStageFirst(t *testing.T) {
	w := start(t, 3, srptListing)
	require.Equal(t, controller.SharedPriority, w.Pool("leda").Dispatch)
	require.Equal(t, "leda:2 leda:2 leda:2", w.pools())
	require.Equal(t, "s3 s2 s1", w.serve())

	w = start(t, 3, srptPrivateListing)
	require.Equal(t, controller.Polled, w.Pool("leda").Dispatch)
	require.Equal(t, "3(0) 2(0) 1(2) 3(0) 2(2) 3(2) 3(0) 2(0) 1(0) |", w.ways(2, 1))
}

func TestTheListingOfColorServesFirstComeFirst(t *testing.T) {
	w := start(t, 3, colorListing)
	require.Equal(t, controller.SharedFIFO, w.Pool("leda").Dispatch)
	require.Equal(t, "leda:2 leda:2 leda:2", w.pools())
	require.Equal(t, "s1 s2 s3", w.serve())
}

func TestTheListingOfStealingMovesWorkers(t *testing.T) {
	tests := map[string]struct {
		rates     []int
		instances int
		workers   string
	}{
		"two pairs":                            {[]int{90, 40, 100, 70, 120}, 10, "leda-1:2 leda-2:3 leda-3:1 leda-4:3 leda-5:1"},
		"no instances for more":                {[]int{90, 40, 100, 70, 120}, 2, "leda-1:2 leda-2:2 leda-3:2 leda-4:2 leda-5:2"},
		"three stages make one pair":           {[]int{90, 40, 100}, 10, "leda-1:2 leda-2:3 leda-3:1"},
		"with two the first is not undone":     {[]int{90, 40}, 10, "leda-1:1 leda-2:3"},
		"one stage cannot steal":               {[]int{90}, 10, "leda-1:2"},
		"a stage without input counts as slow": {[]int{90, 0}, 10, "leda-1:1 leda-2:3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := start(t, len(tt.rates), stealingListing)
			require.Equal(t, 10*time.Second, w.every)
			in := slices.Repeat([]int{100}, len(tt.rates))
			for i := range w.Stages {
				w.Stages[i].Instances = tt.instances
				if tt.rates[i] == 0 {
					in[i] = 0
				}
			}
			w.load(in, tt.rates)
			w.tick(w.every)
			require.Equal(t, tt.workers, w.pools())
		})
	}
}

// A script reads like those of the dissertation: this one is its listing of SEDA, for one stage.
func Example() {
	seda := leda.New("seda", func(l *leda.Leda) {
		pool := l.Pool.New(2)
		_ = l.Pool.SetPool(pool, "parse")
		_ = l.Monitoring.AddTimer(func() {
			threads := l.Pool.GetThreadsCount(pool)
			if l.Monitoring.GetQueueSize("parse") > 50 && threads < 10 {
				_ = l.Pool.Add(pool, 1)
			} else if threads > 2 {
				_ = l.Pool.Kill(pool, 1)
			}
		}, 2*time.Second)
	})

	see := &controller.Snapshot{Stages: []controller.StageStats{{Name: "parse", Pool: "parse", QueueLen: 60}}}
	c := seda.New()
	var d controller.Decisions
	ask := func(kind controller.EventKind) {
		_ = controller.Ask(c, controller.Event{Kind: kind}, see, &d)
		changes, _ := controller.Settle(seda.Name(), see, &d)
		for _, change := range changes {
			fmt.Println(change)
		}
	}
	ask(controller.EventStart)

	see.At = d.Interval()
	see.Pools = []controller.PoolStats{{Name: "leda-1", Workers: 2, MinWorkers: 1, MaxWorkers: 4096}}
	see.Stages[0].Pool = "leda-1"
	ask(controller.EventTick)
	// Output:
	// 0s seda: pool "leda-1": workers 0 to 2: script: pool.new(2)
	// 0s seda: stage "parse": pool parse to leda-1: script: pool.setPool
	// 2s seda: pool "leda-1": workers 2 to 3: script: pool.add(1) with 2
}
