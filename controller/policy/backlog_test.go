package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

const ms = time.Millisecond

func TestBacklogBringsASleepingHandlerToItsFullRateWithinASecond(t *testing.T) {
	s := (&sim{rate: -1, service: 10 * ms, capacity: 1024}).start(policy.Backlog{}, 1, 32).run(time.Second)
	require.Equal(t, 32, s.stage.Workers, "%v", s.journal)
	require.Less(t, s.journal[len(s.journal)-1].At, 600*ms, "%v", s.journal)
	before := s.stage.Total.OK
	s.run(10 * time.Second)
	require.GreaterOrEqual(t, s.stage.Total.OK-before, uint64(31_500), "of 32,000 in ten seconds")
	require.Equal(t, 32, s.stage.Workers, "the number stays there: %v", s.journal)
}

func TestBacklogReachesTheFullRateWhateverTheServiceTime(t *testing.T) {
	for _, service := range []time.Duration{1 * ms, 3 * ms, 50 * ms, 300 * ms, 2 * time.Second} {
		for _, capacity := range []int{4, 64, 1024} {
			t.Run(fmt.Sprint(service, capacity), func(t *testing.T) {
				s := (&sim{rate: -1, service: service, capacity: capacity}).start(policy.Backlog{}, 2, 16).run(time.Second)
				require.Equal(t, 16, s.stage.Workers, "%v", s.journal)
				s.run(time.Minute)
				require.Equal(t, 16, s.stage.Workers, "%v", s.journal)
			})
		}
	}
}

// Two cores do the work of two workers, however many there are.
func TestBacklogRemovesWorkersThatCompeteForTheCPUs(t *testing.T) {
	for name, blind := range map[string]bool{"the CPU usage is known": false, "the CPU usage is not known": true} {
		for _, service := range []time.Duration{3 * ms, 10 * ms, 80 * ms, time.Second} {
			for _, least := range []int{1, 2} {
				t.Run(fmt.Sprint(name, service, least), func(t *testing.T) {
					s := (&sim{rate: -1, service: service, cores: 2, blind: blind, capacity: 1024}).start(policy.Backlog{}, least, 8)
					s.run(2 * time.Minute)
					most, competing := 0, time.Duration(0)
					for range 600 {
						s.run(100 * ms)
						most = max(most, s.stage.Workers)
						if s.stage.Workers > 2 {
							competing += 100 * ms
						}
					}
					require.LessOrEqual(t, most, 4, "%v", s.journal)
					require.LessOrEqual(t, s.stage.Workers, 2, "%v", s.journal)
					require.LessOrEqual(t, competing, 12*time.Second, "%v", s.journal)
				})
			}
		}
	}
}

func TestBacklogChangesAtMostTwiceAMinuteUnderPoissonLoadAtSeventyPercent(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 5, 8, 16, 32} {
		for seed := range uint64(3) {
			for _, random := range []bool{false, true} {
				t.Run(fmt.Sprint(workers, seed, random), func(t *testing.T) {
					const service = 10 * ms
					s := &sim{rate: 0.7 * float64(workers) / service.Seconds(), service: service, random: random, capacity: 1024}
					s.start(policy.Backlog{}, 1, 32)
					s.chance = rand.New(rand.NewPCG(seed, 1))
					s.run(12 * time.Minute)
					require.LessOrEqual(t, s.mostChanges(2*time.Minute), 2, "%v", s.journal)
					require.Less(t, s.stage.QueueLen, 200, "the stage keeps up")
				})
			}
		}
	}
}

func TestBacklogRemovesWorkersSlowlyWhenALoadIsOver(t *testing.T) {
	s := (&sim{rate: -1, service: 10 * ms, capacity: 1024}).start(policy.Backlog{}, 1, 32).run(2 * time.Second)
	s.rate = 0
	was := len(s.journal)
	s.run(10 * time.Minute)
	var got []int
	last := 2 * time.Second
	for _, c := range s.journal[was:] {
		require.GreaterOrEqual(t, c.At-last, 29*time.Second)
		got, last = append(got, c.After.(int)), c.At
	}
	require.Equal(t, []int{26, 20, 15, 12, 9, 7, 6, 5, 4, 3, 2, 1}, got)
}

// The rows give queue, capacity and service time, and the workers that the law wants for a stage with ten of up to 200.
func TestBacklogWantsWhatDrainsTheQueueWithinItsTarget(t *testing.T) {
	for name, row := range map[string]struct {
		law      policy.Backlog
		queue    int
		capacity int
		service  time.Duration
		want     int
	}{
		"nothing waits":                          {queue: 0, service: 10 * ms, want: 10},
		"just what ten do in 100 ms":             {queue: 100, service: 10 * ms, want: 10},
		"one command more":                       {queue: 101, service: 10 * ms, want: 11},
		"half as much more":                      {queue: 150, service: 10 * ms, want: 15},
		"twice as much":                          {queue: 200, service: 10 * ms, want: 20},
		"at most twice the workers":              {queue: 500, service: 10 * ms, want: 20},
		"another target":                         {law: policy.Backlog{Target: 50 * ms}, queue: 75, service: 10 * ms, want: 15},
		"a queue that is half full wants none":   {queue: 20, capacity: 40, service: ms, want: 10},
		"one that is three quarters full does":   {queue: 30, capacity: 40, service: ms, want: 15},
		"a full one wants twice as many":         {queue: 40, capacity: 40, service: ms, want: 20},
		"a full queue of capacity one":           {queue: 1, capacity: 1, service: ms, want: 20},
		"a service time that is not known":       {queue: 500, want: 10},
		"a service time that is not known, full": {queue: 1024, want: 20},
		"no capacity is stated":                  {queue: 150, capacity: -1, service: 10 * ms, want: 15},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRow(row.law.New(), controller.StageStats{QueueCap: row.capacity})
			f.stages[0].QueueLen, f.stages[0].Busy, f.usage = row.queue, 10, 0.1
			if row.service > 0 {
				f.stages[0].Window = controller.Counters{OK: 100, Busy: 100 * row.service}
			}
			f.now += 100 * ms
			f.ask(controller.EventTick)
			require.NoError(t, f.err)
			require.Equal(t, row.want, f.stages[0].Workers, "%v", f.journal.Entries())
		})
	}
}

func TestBacklogAsksForNoMoreWorkersThanInstances(t *testing.T) {
	f := newRow(policy.Backlog{}.New(), controller.StageStats{Instances: 13})
	f.usage = 0.1
	f.run(1024, 1024)
	require.Equal(t, 13, f.stages[0].Workers)
}

// The stages of a group share their workers, so the sum of their work counts.
func TestBacklogJudgesAGroupByAllItsStages(t *testing.T) {
	group := func(queues ...int) *row {
		f := newRow(policy.Backlog{}.New(), controller.StageStats{Pool: "g"}, controller.StageStats{Pool: "g"})
		f.pools = []controller.PoolStats{{Name: "g", Group: true, Workers: 4, MinWorkers: 1, MaxWorkers: 40}}
		for i, n := range queues {
			f.stages[i].QueueLen, f.stages[i].Window = n, controller.Counters{OK: 40, Busy: 400 * ms}
		}
		f.now, f.usage = f.now+100*ms, 0.1
		f.ask(controller.EventTick)
		require.NoError(t, f.err)
		return f
	}
	require.Equal(t, 4, group(20, 20).pools[0].Workers)
	require.Equal(t, 6, group(30, 30).pools[0].Workers)
	require.Equal(t, 4, group(30, 0).pools[0].Workers)
}

// An idle pipeline is inspected three times a second; a full queue raises this to ten times at once.
func TestBacklogTicksLessOftenWhileNothingWaits(t *testing.T) {
	c := policy.Backlog{}.New()
	s := &controller.Snapshot{Stages: []controller.StageStats{{Name: "s", Workers: 1, MinWorkers: 1, MaxWorkers: 9}}}
	var d controller.Decisions
	ask := func(kind controller.EventKind, queue int) time.Duration {
		s.At += 100 * ms
		s.Stages[0].QueueLen = queue
		require.NoError(t, controller.Ask(c, controller.Event{Kind: kind}, s, &d))
		return d.Interval()
	}
	require.Equal(t, 100*ms, ask(controller.EventStart, 0))
	require.Equal(t, 300*ms, ask(controller.EventTick, 0))
	require.Zero(t, ask(controller.EventTick, 0), "as before")
	require.Equal(t, 100*ms, ask(controller.EventQueueFull, 5))
	require.Zero(t, ask(controller.EventTick, 5), "as before")
	require.Equal(t, 300*ms, ask(controller.EventTick, 0))
	require.Equal(t, 100*ms, ask(controller.EventTick, 1))
}

func TestBacklogNamesAllFaultsOfItsParameters(t *testing.T) {
	require.NoError(t, policy.Backlog{}.Check())
	require.NoError(t, policy.Backlog{Interval: 1, Target: 1, Idle: 1, Utilization: 1}.Check())
	require.EqualError(t, policy.Backlog{Interval: -1, Target: -2, Idle: -3, Utilization: 1.5}.Check(),
		"policy: backlog: Interval -1ns is negative\npolicy: backlog: Target -2ns is negative\n"+
			"policy: backlog: Idle -3ns is negative\npolicy: backlog: Utilization 1.5 is not from 0 to 1")
	require.Error(t, policy.Backlog{Utilization: math.NaN()}.Check())
}

func TestTheLawOfBacklogIsAFunction(t *testing.T) {
	law := policy.Backlog{Target: 10 * time.Second, Utilization: 0.5}
	for name, c := range map[string]struct {
		lag       policy.Lag
		workers   int
		processes float64
	}{
		"nothing to do":                      {policy.Lag{Processes: 1, Workers: 4, Most: 4}, 0, 0},
		"no process and no command":          {policy.Lag{}, 0, 0},
		"no process and some commands":       {policy.Lag{Pending: 9}, 1, 1},
		"work for a hundred seconds":         {policy.Lag{Pending: 1002, Rate: 20, Busy: 2, Processes: 1, Workers: 4, Most: 4}, 10, 2.5},
		"a little more needs one more":       {policy.Lag{Pending: 1003, Rate: 20, Busy: 2, Processes: 1, Workers: 4, Most: 4}, 11, 2.75},
		"busy workers leave some idle":       {policy.Lag{Pending: 4, Rate: 20, Busy: 4, Processes: 2, Workers: 4, Most: 8}, 8, 2},
		"a queue that is half full is right": {policy.Lag{Fill: 0.5, Processes: 1, Workers: 4, Most: 4}, 4, 1},
		"a full queue asks for twice":        {policy.Lag{Fill: 1, Processes: 1, Workers: 4, Most: 4}, 8, 2},
		"what takes how long is not known":   {policy.Lag{Pending: 1000, Processes: 1, Workers: 4, Most: 4}, 4, 1},
		"and no worker is there":             {policy.Lag{Pending: 1000, Processes: 1}, 1, 1},
		"commands in hand do not wait":       {policy.Lag{Pending: 1, Rate: 1, Busy: 4, Processes: 1, Workers: 4, Most: 4}, 8, 2},
		"no number is negative":              {policy.Lag{Rate: -1, Fill: -1, Busy: -1, Processes: 1, Workers: 4, Most: -4}, 0, 0},
		"nor too large":                      {policy.Lag{Rate: 1, Pending: math.MaxUint64, Busy: 1e300, Processes: 1, Most: 1}, math.MaxInt32, math.MaxInt32},
		"not a number counts as nothing":     {policy.Lag{Rate: math.NaN(), Fill: math.NaN(), Busy: math.NaN(), Processes: 1, Workers: 4, Most: 4}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			workers, processes := law.Wanted(c.lag)
			require.Equal(t, c.workers, workers)
			require.InDelta(t, c.processes, processes, 0)
		})
	}
	workers, _ := policy.Backlog{}.Wanted(policy.Lag{Pending: 11, Rate: 10, Busy: 1, Processes: 1, Workers: 1, Most: 1})
	require.Equal(t, 10, workers, "the zero Backlog has its defaults")
}
