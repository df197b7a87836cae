package policy_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// disk is a stage of blocking handlers, whose throughput depends on the number of workers.
type disk struct {
	controller.Snapshot

	speed  func(workers int) float64 // commands a second
	noise  float64                   // of the throughput: a share of it
	chance *rand.Rand
	c      controller.Controller
	d      controller.Decisions
	rest   float64
	around []int // the workers at each tick
	whys   []string
}

func newDisk(speed func(int) float64, noise float64, seed uint64) *disk {
	g := &disk{speed: speed, noise: noise, chance: rand.New(rand.NewPCG(seed, 1)), c: policy.Hill{Seed: seed}.New()}
	g.Stages = []controller.StageStats{{
		Name: "read", QueueLen: 9, QueueCap: 1000, Workers: 4, MinWorkers: 1, MaxWorkers: 100, Instances: 100, Blocking: true,
	}}
	g.ask(controller.EventStart)
	return g
}

func (g *disk) ask(kind controller.EventKind) {
	if err := controller.Ask(g.c, controller.Event{Kind: kind}, &g.Snapshot, &g.d); err != nil {
		panic(err)
	}
	changes, faults := controller.Settle("hill", &g.Snapshot, &g.d)
	if len(faults) > 0 {
		panic(faults[0])
	}
	for _, c := range changes {
		g.Stages[0].Workers = c.After.(int)
		g.whys = append(g.whys, c.Why)
	}
}

// run lets a time pass, and returns the mean number of workers in its second half.
func (g *disk) run(length time.Duration) float64 {
	g.around = g.around[:0]
	for end := g.At + length; g.At < end; {
		passed, st := g.d.Interval(), &g.Stages[0]
		g.At += passed
		done := g.speed(st.Workers)*passed.Seconds()*(1+g.noise*g.chance.NormFloat64()) + g.rest
		whole, rest := math.Modf(max(done, 0))
		g.rest = rest
		st.Total.OK += uint64(whole)
		busy := st.Workers
		if st.QueueLen == 0 {
			busy = min(busy, 3)
		}
		st.Total.Busy += passed * time.Duration(busy)
		g.ask(controller.EventTick)
		g.around = append(g.around, st.Workers)
	}
	sum, half := 0, g.around[len(g.around)/2:]
	for _, n := range half {
		sum += n
	}
	return float64(sum) / float64(len(half))
}

func TestHillClimbsToTheBestNumberOfWorkers(t *testing.T) {
	flat := func(n int) func(int) float64 { return func(w int) float64 { return 100 * float64(min(w, n)) } }
	falls := func(n int) func(int) float64 {
		return func(w int) float64 { return 100 * float64(min(w, n)) * math.Pow(0.9, float64(max(w-n, 0))) }
	}
	for name, row := range map[string]struct {
		speed func(int) float64
		noise float64
		least float64 // workers, on average, in the end
		most  float64
	}{
		"no more after eight":                       {flat(8), 0, 7, 11},
		"no more after thirty":                      {flat(30), 0.02, 26, 40},
		"no more after eight, with much noise":      {flat(8), 0.2, 6, 18},
		"less after eight":                          {falls(8), 0.02, 6, 10},
		"always a little more, but it does not pay": {func(w int) float64 { return 1000 + float64(w) }, 0.01, 1, 6},
		"always more":                               {flat(1000), 0.02, 90, 100},
		"one is best":                               {func(w int) float64 { return 1000 / float64(w) }, 0.02, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				g := newDisk(row.speed, row.noise, seed)
				n := g.run(10 * time.Minute)
				require.GreaterOrEqual(t, n, row.least, "%v", g.whys[max(len(g.whys)-30, 0):])
				require.LessOrEqual(t, n, row.most, "%v", g.whys[max(len(g.whys)-30, 0):])
			}
		})
	}
}

// The best number changes, and the workers follow.
func TestHillFollowsAChange(t *testing.T) {
	best := 20
	g := newDisk(func(w int) float64 { return 100 * float64(min(w, best)) }, 0.02, 1)
	require.InDelta(t, 21, g.run(5*time.Minute), 6)
	best = 5
	require.InDelta(t, 6, g.run(10*time.Minute), 4)
	best = 40
	require.InDelta(t, 42, g.run(10*time.Minute), 10)
}

func TestHillSaysWhatItHasMeasured(t *testing.T) {
	g := newDisk(func(w int) float64 { return 100 * float64(w) }, 0, 1)
	g.run(10 * time.Second)
	require.Regexp(t, `^\d+/s with \d+; (0.9|1.0).* more for each more, confidence \d\.\d\d: around \d+\.\d$`, g.whys[len(g.whys)-1])
}

func TestHillKeepsTheWorkers(t *testing.T) {
	for name, change := range map[string]func(g *disk){
		"of a stage that computes":              func(g *disk) { g.Stages[0].Blocking = false },
		"of a paused stage":                     func(g *disk) { g.Stages[0].Paused = true },
		"of a stage that is bound":              func(g *disk) { g.Stages[0].Bound = true },
		"of a stage that has little to do":      func(g *disk) { g.Stages[0].QueueLen = 0 },
		"of a stage that has as many as it may": func(g *disk) { g.Stages[0].MinWorkers, g.Stages[0].MaxWorkers = 4, 4 },
	} {
		t.Run(name, func(t *testing.T) {
			g := newDisk(func(w int) float64 { return 100 * float64(w) }, 0, 1)
			change(g)
			g.run(time.Minute)
			require.Equal(t, 4, slices.Min(g.around))
			require.Equal(t, 4, slices.Max(g.around))
		})
	}
}

func TestHillDoesNotGrowWhileTheCPUsAreInUse(t *testing.T) {
	g := newDisk(func(w int) float64 { return 100 * float64(w) }, 0.01, 1)
	g.CPUUsage = 0.96
	require.Less(t, g.run(5*time.Minute), 6.0, "but for the wave")
	g.CPUUsage = 0.94
	require.Greater(t, g.run(5*time.Minute), 50.0)
}

// Handlers that wait for each other need one worker more than there are.
func TestHillAddsAWorkerWhereNothingIsDone(t *testing.T) {
	g := newDisk(func(w int) float64 {
		if w < 10 {
			return 0
		}
		return 1000
	}, 0, 1)
	g.run(7 * time.Second)
	require.GreaterOrEqual(t, slices.Max(g.around), 10)
	require.Equal(t, "no command was done for", g.whys[0][:len("no command was done for")])
}

func TestHillRemovesWorkersThatHaveNothingToDo(t *testing.T) {
	g := newDisk(func(int) float64 { return 100 }, 0, 1)
	g.Stages[0].Workers, g.Stages[0].QueueLen = 64, 0
	g.run(29 * time.Second)
	require.Equal(t, 64, g.Stages[0].Workers)
	g.run(3 * time.Second)
	require.Equal(t, 48, g.Stages[0].Workers, "a quarter goes")
	g.run(10 * time.Minute)
	require.Equal(t, 5, g.Stages[0].Workers, "three are busy")
}

func TestHillKeepsItsPromisesUnderAnyThroughput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		speeds := rapid.SliceOfN(rapid.Float64Range(0, 5000), 101, 101).Draw(t, "speeds")
		g := newDisk(func(w int) float64 { return speeds[min(max(w, 0), 100)] }, rapid.Float64Range(0, 1).Draw(t, "noise"), 1)
		st := &g.Stages[0]
		st.MinWorkers = rapid.IntRange(1, 8).Draw(t, "least")
		st.MaxWorkers = st.MinWorkers + rapid.IntRange(0, 40).Draw(t, "span")
		st.Workers = rapid.IntRange(st.MinWorkers, st.MaxWorkers).Draw(t, "workers")
		st.Instances = rapid.IntRange(0, 40).Draw(t, "instances")
		for range 10 {
			st.QueueLen = rapid.IntRange(0, 1).Draw(t, "queue")
			st.Bound = rapid.IntRange(0, 9).Draw(t, "bound") == 0
			g.CPUUsage = rapid.Float64Range(0, 1).Draw(t, "CPUs")
			g.run(10 * time.Second)
			require.GreaterOrEqual(t, slices.Min(g.around), st.MinWorkers)
			require.LessOrEqual(t, slices.Max(g.around), st.MaxWorkers)
		}
	})
}

func TestHillReportsTheFaultOfItsParameter(t *testing.T) {
	require.NoError(t, policy.Hill{}.Check())
	require.ErrorContains(t, policy.Hill{Interval: -1}.Check(), "Interval")
}
