package leda_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/leda"
)

// appendixA lists the names of the 33 methods, as in the appendix.
var appendixA = []string{
	"A.1.1 leda.usePrivateQueues",
	"A.1.2 leda.setQueueCapacity",
	"A.1.3 leda.getQueueCapacity",
	"A.1.4 leda.disableQueue",
	"A.1.5 leda.enableQueue",
	"A.1.6 leda.queueIsEnabled",
	"A.2.1 leda.pool.new",
	"A.2.2 leda.pool.setPool",
	"A.2.3 leda.pool.add",
	"A.2.4 leda.pool.kill",
	"A.2.5 leda.pool.getPool",
	"A.2.6 leda.pool.getThreadsCount",
	"A.3.1 leda.monitoring.addTimer",
	"A.3.2 leda.monitoring.getCpusCount",
	"A.3.3 leda.monitoring.getCpuUsage",
	"A.3.4 leda.monitoring.getQueueSize",
	"A.3.5 leda.monitoring.getProcessedCount",
	"A.3.6 leda.monitoring.getInputCount",
	"A.3.7 leda.monitoring.resetStatistics",
	"A.3.8 leda.monitoring.fireLastFocused",
	"A.3.9 leda.monitoring.doNotFireLastFocused",
	"A.4.1 leda.scheduler.visitOrder",
	"A.4.2 leda.scheduler.maxVisits",
	"A.4.3 leda.scheduler.restartAtIndex",
	"A.4.4 leda.scheduler.doNotRestart",
	"A.4.5 leda.scheduler.steal",
	"A.4.6 leda.scheduler.setPriority",
	"A.4.7 leda.scheduler.getPriority",
	"A.4.8 leda.scheduler.maxEventsWhenFocused",
	"A.5.1 leda.instances.add",
	"A.5.2 leda.instances.kill",
	"A.5.3 leda.instances.getInstanceCount",
	"A.5.4 leda.instances.getFreeInstancesCount",
}

// proofs show the effect of each method: the decision that it makes, settled and applied in a small fake pipeline, or
// the value that it reads there.
var proofs = map[string]func(t *testing.T){
	"leda.usePrivateQueues": func(t *testing.T) {
		w := start(t, 3, func(*leda.Leda) {})
		require.Equal(t, controller.SharedFIFO, w.Pool("leda").Dispatch, "the default is the global queue")
		w = start(t, 3, func(l *leda.Leda) { l.UsePrivateQueues() })
		require.Equal(t, controller.Polled, w.Pool("leda").Dispatch)
		require.Equal(t, "1(1) 2(1) 3(1) |", w.ways(1, 1))
	},
	"leda.setQueueCapacity": func(t *testing.T) {
		w := start(t, 2, func(l *leda.Leda) { require.NoError(t, l.SetQueueCapacity("s2", 3)) })
		require.Equal(t, 3, w.push(2, 5), "two are too many")
		require.Equal(t, 5, w.push(1, 5), "the other stage has its hundred")
	},
	"leda.getQueueCapacity": func(t *testing.T) {
		start(t, 2, func(l *leda.Leda) {
			require.Equal(t, 100, l.GetQueueCapacity("s1"))
			require.NoError(t, l.SetQueueCapacity("s1", -1))
			require.Equal(t, 1, l.GetQueueCapacity("s1"), "the capacity is at least one")
			require.Zero(t, l.GetQueueCapacity("ghost"))
		})
	},
	"leda.disableQueue": func(t *testing.T) {
		w := newWorld(t, 2)
		w.push(1, 2)
		w.run(func(l *leda.Leda) { require.NoError(t, l.DisableQueue("s1")) })
		require.Zero(t, w.push(1, 1), "no command is accepted")
		require.Equal(t, 2, w.stage(1).QueueLen, "waiting commands are handled")
		require.Equal(t, 1, w.push(2, 1))
	},
	"leda.enableQueue": func(t *testing.T) {
		w := newWorld(t, 1)
		w.stage(1).Enabled = false
		w.run(func(l *leda.Leda) { require.NoError(t, l.EnableQueue("s1")) })
		require.Equal(t, 1, w.push(1, 1))
	},
	"leda.queueIsEnabled": func(t *testing.T) {
		start(t, 2, func(l *leda.Leda) {
			require.True(t, l.QueueIsEnabled("s1"))
			require.NoError(t, l.DisableQueue("s1"))
			require.False(t, l.QueueIsEnabled("s1"))
			require.True(t, l.QueueIsEnabled("s2"))
			require.False(t, l.QueueIsEnabled("ghost"))
		})
	},
	"leda.pool.new": func(t *testing.T) {
		w := start(t, 1, func(l *leda.Leda) {
			require.Equal(t, leda.Pool("leda-1"), l.Pool.New(3))
			require.Equal(t, leda.Pool("leda-2"), l.Pool.New(0))
		})
		require.Equal(t, 3, w.Pool("leda-1").Workers)
		require.Equal(t, 1, w.Pool("leda-2").Workers, "with no workers commands would wait for ever")
	},
	"leda.pool.setPool": func(t *testing.T) {
		w := start(t, 3, func(l *leda.Leda) {
			require.NoError(t, l.Pool.SetPool(l.Pool.New(4), "s2"))
			require.NoError(t, l.Pool.SetPool("s3", "s3"), "its own")
		})
		require.Equal(t, "leda:1 leda-1:4 s3:2", w.pools())
	},
	"leda.pool.add": func(t *testing.T) {
		var pool leda.Pool
		w := start(t, 2, func(l *leda.Leda) {
			pool = l.Pool.New(2)
			require.NoError(t, l.Pool.SetPool(pool, "s1"))
			require.NoError(t, l.Pool.Add(leda.Global, 2), "two workers, and no hidden third")
			require.NoError(t, l.Monitoring.AddTimer(func() { require.NoError(t, l.Pool.Add(pool, 3)) }, time.Second))
		})
		require.Equal(t, "leda-1:2 leda:2", w.pools())
		w.tick(time.Second)
		require.Equal(t, "leda-1:5 leda:2", w.pools())
		changes, _ := controller.Settle("again", &w.Snapshot, &w.d)
		require.Empty(t, changes, "the decision sets the number, so applying it twice does no harm")
	},
	"leda.pool.kill": func(t *testing.T) {
		w := start(t, 2, func(l *leda.Leda) {
			for _, st := range l.Stages() {
				require.NoError(t, l.Pool.SetPool(leda.Pool(st), st))
			}
			require.NoError(t, l.Pool.Add("s1", 3))
			require.NoError(t, l.Pool.Kill("s1", 1))
			require.NoError(t, l.Pool.Kill("s2", 99))
		})
		require.Equal(t, "s1:4 s2:1", w.pools(), "one remains")
	},
	"leda.pool.getPool": func(t *testing.T) {
		start(t, 2, func(l *leda.Leda) {
			require.Equal(t, leda.Global, l.Pool.GetPool("s1"), "the script has set no other pool yet")
			pool := l.Pool.New(1)
			require.NoError(t, l.Pool.SetPool(pool, "s1"))
			require.Equal(t, pool, l.Pool.GetPool("s1"))
			require.Empty(t, l.Pool.GetPool("ghost"))
		})
	},
	"leda.pool.getThreadsCount": func(t *testing.T) {
		start(t, 2, func(l *leda.Leda) {
			require.Zero(t, l.Pool.GetThreadsCount(leda.Global), "it is not needed yet")
			require.Equal(t, 5, l.Pool.GetThreadsCount(l.Pool.New(5)))
			require.NoError(t, l.Pool.Add("s1", 99))
			require.Equal(t, 8, l.Pool.GetThreadsCount("s1"), "as many as the bounds allow")
			require.Zero(t, l.Pool.GetThreadsCount("ghost"))
		})
	},
	"leda.monitoring.addTimer": func(t *testing.T) {
		var calls []string
		w := start(t, 1, func(l *leda.Leda) {
			require.NoError(t, l.Monitoring.AddTimer(func() { calls = append(calls, "three") }, 3*time.Second))
			require.NoError(t, l.Monitoring.AddTimer(func() { calls = append(calls, "two") }, 2*time.Second))
		})
		for range 4 { // the script asks for calls after 2, 3, 4 and 6 seconds
			calls = append(calls, (w.At + w.every).String())
			w.tick(w.every)
		}
		require.Equal(t, "2s two 3s three 4s two 6s three two", strings.Join(calls, " "))
	},
	"leda.monitoring.getCpusCount": func(t *testing.T) {
		start(t, 1, func(l *leda.Leda) { require.Equal(t, 4, l.Monitoring.GetCpusCount()) })
	},
	"leda.monitoring.getCpuUsage": func(t *testing.T) {
		w := newWorld(t, 1)
		w.CPUUsage = 0.375
		w.MachineUsage = 0.871
		w.run(func(l *leda.Leda) { require.Equal(t, 38, l.Monitoring.GetCpuUsage()) })
		_, asked := w.d.WantsMachine()
		require.False(t, asked)
		w.run(func(l *leda.Leda) {
			l.Monitoring.Machine = true
			require.Equal(t, 87, l.Monitoring.GetCpuUsage())
		})
		on, _ := w.d.WantsMachine()
		require.True(t, on)
	},
	"leda.monitoring.getQueueSize": func(t *testing.T) {
		w := newWorld(t, 2)
		w.push(2, 7)
		w.run(func(l *leda.Leda) {
			require.Zero(t, l.Monitoring.GetQueueSize("s1"))
			require.Zero(t, l.Monitoring.GetQueueSize("s2"), "each has one of ten instances")
		})
		w.push(2, 8)
		w.run(func(l *leda.Leda) {
			require.Equal(t, 5, l.Monitoring.GetQueueSize("s2"))
			require.NoError(t, l.Instances.Add("s2", 2))
			require.Equal(t, 3, l.Monitoring.GetQueueSize("s2"), "new instances are combined, too")
		})
	},
	"leda.monitoring.getProcessedCount": func(t *testing.T) {
		w := newWorld(t, 1)
		w.stage(1).Total = controller.Counters{Accepted: 20, OK: 3, Forwarded: 4, Errors: 2, Crashes: 5, Shed: 6}
		w.run(func(l *leda.Leda) {
			require.Equal(t, 9, l.Monitoring.GetProcessedCount("s1"), "a crash is not an answer")
		})
	},
	"leda.monitoring.getInputCount": func(t *testing.T) {
		w := newWorld(t, 1)
		w.stage(1).Total = controller.Counters{Accepted: 20, OK: 3, Rejected: 100}
		w.run(func(l *leda.Leda) {
			require.Equal(t, 20, l.Monitoring.GetInputCount("s1"), "a refused command is not input")
		})
	},
	"leda.monitoring.resetStatistics": func(t *testing.T) {
		w := newWorld(t, 2)
		w.push(1, 8)
		w.push(2, 5)
		var one, two int
		w.run(func(l *leda.Leda) {
			require.NoError(t, l.Monitoring.ResetStatistics("s1"))
			require.Zero(t, l.Monitoring.GetInputCount("s1"))
			require.NoError(t, l.Monitoring.AddTimer(func() {
				one, two = l.Monitoring.GetInputCount("s1"), l.Monitoring.GetInputCount("s2")
			}, time.Second))
		})
		require.EqualValues(t, 8, w.stage(1).Total.Accepted, "the stage's counters are not changed")
		w.push(1, 3)
		w.tick(time.Second)
		require.Equal(t, []int{3, 5}, []int{one, two})
		w.run(func(l *leda.Leda) { require.Equal(t, 11, l.Monitoring.GetInputCount("s1"), "another script sees all") })
	},
	"leda.monitoring.fireLastFocused": func(t *testing.T) {
		var rounds int
		w := start(t, 2, func(l *leda.Leda) {
			l.UsePrivateQueues()
			require.NoError(t, l.Monitoring.FireLastFocused(func() { rounds++ }))
		})
		require.True(t, w.rounds, "the event is requested")
		require.Zero(t, rounds)
		w.inTurn(time.Second)
		require.Equal(t, 1, rounds)
	},
	"leda.monitoring.doNotFireLastFocused": func(t *testing.T) {
		var rounds int
		w := start(t, 2, func(l *leda.Leda) {
			l.UsePrivateQueues()
			require.NoError(t, l.Monitoring.FireLastFocused(func() {
				rounds++
				l.Monitoring.DoNotFireLastFocused()
			}))
		})
		w.inTurn(time.Second)
		require.False(t, w.rounds, "the event is no longer requested")
		w.inTurn(time.Second)
		require.Equal(t, 1, rounds)
	},
	"leda.scheduler.visitOrder": func(t *testing.T) {
		w := start(t, 3, func(l *leda.Leda) {
			l.UsePrivateQueues()
			require.NoError(t, l.Scheduler.VisitOrder([]leda.Stage{"s1", "s2", "s3", "s2"}))
		})
		require.Equal(t, "1(1) 2(1) 3(1) 2(0) |", w.ways(1, 1))
	},
	"leda.scheduler.maxVisits": func(t *testing.T) {
		var calls int
		w := start(t, 1, func(l *leda.Leda) {
			require.NoError(t, l.Scheduler.MaxVisits(50, func() {
				if calls++; calls == 2 {
					require.NoError(t, l.Scheduler.MaxVisits(0, nil))
				}
			}))
		})
		require.Equal(t, 50, w.visits, "the event is requested")
		for range 3 {
			w.tell(controller.Event{Kind: controller.EventVisits, Stage: controller.NoStage})
		}
		require.Equal(t, 2, calls)
		require.Zero(t, w.visits)
	},
	"leda.scheduler.restartAtIndex": func(t *testing.T) {
		w := start(t, 3, func(l *leda.Leda) {
			l.UsePrivateQueues()
			require.NoError(t, l.Scheduler.VisitOrder([]leda.Stage{"s3", "s2", "s1"}))
			require.NoError(t, l.Scheduler.RestartAtIndex(2))
		})
		require.Equal(t, 1, w.plan().RestartAt, "counted from zero here")
		require.Equal(t, "3(0) 2(0) 1(1) 2(1) 2(0) 1(0) |", w.ways(1, 1))
	},
	"leda.scheduler.doNotRestart": func(t *testing.T) {
		w := start(t, 3, func(l *leda.Leda) {
			l.UsePrivateQueues()
			require.NoError(t, l.Scheduler.RestartAtIndex(1))
			l.Scheduler.DoNotRestart()
		})
		require.False(t, w.plan().Restart)
		require.Equal(t, "1(1) 2(1) 3(1) |", w.ways(1, 1))
	},
	"leda.scheduler.steal": func(t *testing.T) {
		w := start(t, 4, func(l *leda.Leda) {
			for _, st := range l.Stages() {
				require.NoError(t, l.Pool.SetPool(l.Pool.New(4), st))
			}
			require.NoError(t, l.Pool.SetPool("s4", "s4"))
			require.NoError(t, l.Scheduler.Steal("s1", "s2", 2))
			require.NoError(t, l.Scheduler.Steal("s1", "s2", 1), "and again from the same one")
			require.NoError(t, l.Scheduler.Steal("s4", "s3", 99))
			require.NoError(t, l.Scheduler.Steal("s3", "s3", 1), "from itself")
		})
		require.Equal(t, "leda-1:7 leda-2:1 leda-3:1 s4:5", w.pools(), "the sum stays the same")
	},
	"leda.scheduler.setPriority": func(t *testing.T) {
		w := start(t, 3, func(l *leda.Leda) { require.NoError(t, l.Scheduler.SetPriority("s3", 1)) })
		require.Equal(t, controller.SharedPriority, w.Pool("leda").Dispatch)
		require.Equal(t, "s3 s1 s2", w.serve())
	},
	"leda.scheduler.getPriority": func(t *testing.T) {
		start(t, 2, func(l *leda.Leda) {
			require.Zero(t, l.Scheduler.GetPriority("s1"))
			require.NoError(t, l.Scheduler.SetPriority("s1", -3))
			require.Equal(t, -3, l.Scheduler.GetPriority("s1"))
			require.Zero(t, l.Scheduler.GetPriority("ghost"))
		})
	},
	"leda.scheduler.maxEventsWhenFocused": func(t *testing.T) {
		bounds := func(set func(g *leda.SchedulerGroup)) string {
			return start(t, 2, func(l *leda.Leda) {
				l.UsePrivateQueues()
				set(l.Scheduler)
			}).ways(5, 2)
		}
		require.Equal(t, "1(2) 2(2) | 1(2) 2(2) |", bounds(func(g *leda.SchedulerGroup) {
			require.NoError(t, g.MaxEventsWhenFocused(leda.All, 2))
		}), "exactly two")
		require.Equal(t, "1(5) 2(1) | 1(0) 2(1) |", bounds(func(g *leda.SchedulerGroup) {
			require.NoError(t, g.MaxEventsWhenFocused("s2", 1))
		}), "the other stage has no bound")
		require.Equal(t, "1(4) 2(2) | 1(1) 2(2) |", bounds(func(g *leda.SchedulerGroup) {
			require.NoError(t, g.MaxEventsWhenFocused(leda.All, 2))
			require.NoError(t, g.MaxEventsWhenFocused("s1", 4))
		}))
		require.Equal(t, "1(5) 2(5) | 1(0) 2(0) |", bounds(func(g *leda.SchedulerGroup) {
			require.NoError(t, g.MaxEventsWhenFocused("s1", 4))
			require.NoError(t, g.MaxEventsWhenFocused(leda.All, 0))
		}), "no bound for All removes all bounds")
	},
	"leda.instances.add": func(t *testing.T) {
		w := start(t, 2, func(l *leda.Leda) { require.NoError(t, l.Instances.Add("s2", 5)) })
		require.Equal(t, []int{10, 15}, []int{w.stage(1).Instances, w.stage(2).Instances})
	},
	"leda.instances.kill": func(t *testing.T) {
		w := start(t, 2, func(l *leda.Leda) {
			require.NoError(t, l.Instances.Kill("s1", 8))
			require.NoError(t, l.Instances.Kill("s2", 99))
		})
		require.Equal(t, []int{2, 1}, []int{w.stage(1).Instances, w.stage(2).Instances}, "one remains")
	},
	"leda.instances.getInstanceCount": func(t *testing.T) {
		start(t, 1, func(l *leda.Leda) {
			require.Equal(t, 10, l.Instances.GetInstanceCount("s1"))
			require.NoError(t, l.Instances.Kill("s1", 99))
			require.Equal(t, 1, l.Instances.GetInstanceCount("s1"))
			require.Zero(t, l.Instances.GetInstanceCount("ghost"))
		})
	},
	"leda.instances.getFreeInstancesCount": func(t *testing.T) {
		w := newWorld(t, 1)
		w.stage(1).FreeInstances = 3
		w.run(func(l *leda.Leda) {
			require.Equal(t, 3, l.Instances.GetFreeInstancesCount("s1"))
			require.NoError(t, l.Instances.Add("s1", 2))
			require.Equal(t, 5, l.Instances.GetFreeInstancesCount("s1"), "the new ones are free")
			require.NoError(t, l.Instances.Kill("s1", 9))
			require.Zero(t, l.Instances.GetFreeInstancesCount("s1"), "busy ones are not")
		})
	},
}

func TestMethods(t *testing.T) {
	for _, name := range appendixA {
		t.Run(name, func(t *testing.T) {
			_, method, _ := strings.Cut(name, " ")
			require.Contains(t, proofs, method)
			proofs[method](t)
		})
	}
}

// groups are the five groups of the appendix and the types that have their methods.
var groups = map[string]reflect.Type{
	"leda":            reflect.TypeFor[*leda.Leda](),
	"leda.pool":       reflect.TypeFor[*leda.PoolGroup](),
	"leda.monitoring": reflect.TypeFor[*leda.MonitoringGroup](),
	"leda.scheduler":  reflect.TypeFor[*leda.SchedulerGroup](),
	"leda.instances":  reflect.TypeFor[*leda.InstancesGroup](),
}

// beside lists methods that are deliberately not among the 33.
var beside = []string{
	"leda.stages", // in the appendix the script makes the stages; here it lists them
}

// The methods of the five groups are exactly those of the appendix, and each has its proof.
func TestT20_TheInterfaceHasExactlyThe33MethodsOfAppendixA(t *testing.T) {
	require.Len(t, appendixA, 33)
	require.Len(t, proofs, 33)
	var want []string
	for _, name := range appendixA {
		_, method, _ := strings.Cut(name, " ")
		want = append(want, method)
		assert.Contains(t, proofs, method)
	}
	want = append(want, beside...)
	var have []string
	for group, is := range groups {
		for method := range is.Methods() {
			have = append(have, group+"."+strings.ToLower(method.Name[:1])+method.Name[1:])
		}
	}
	assert.ElementsMatch(t, want, have)
	for name, is := range groups { // each group is where the appendix has it
		if _, field, ok := strings.Cut(name, "."); ok {
			f, found := reflect.TypeFor[leda.Leda]().FieldByName(strings.ToUpper(field[:1]) + field[1:])
			require.True(t, found, name)
			assert.Equal(t, is, f.Type, name)
		}
	}
}
