package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// Ticks of one second, a cooldown of two, 10 to 200 workers, 120 waiting commands.
func TestT13_TheFixedRuleGivesTheFixedVector(t *testing.T) {
	tests := map[string]struct {
		samples int
		want    []int
	}{
		"K=1":            {1, []int{11, 11, 12, 12, 13}},
		"K=1 by default": {0, []int{11, 11, 12, 12, 13}},
		"K=3":            {3, []int{10, 10, 11, 11, 11, 12}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newRow(policy.ERLDA{Samples: tt.samples}.New())
			require.Equal(t, tt.want, f.run(during(len(tt.want), 120)...))
			require.NoError(t, f.err)
		})
	}
}

func TestERLDAFollowsTheQueue(t *testing.T) {
	one := func(workers, least, most int) controller.StageStats {
		return controller.StageStats{Workers: workers, MinWorkers: least, MaxWorkers: most}
	}
	none := policy.ERLDA{Cooldown: policy.NoCooldown}
	tests := map[string]struct {
		law   policy.ERLDA
		stage controller.StageStats
		queue []int
		want  []int
	}{
		"the threshold itself is not hot":              {none, one(10, 1, 20), []int{100, 101}, []int{10, 11}},
		"the threshold itself is not cold":             {none, one(10, 1, 20), []int{10, 9}, []int{10, 9}},
		"in between nothing changes":                   {none, one(10, 1, 20), []int{11, 50, 99}, []int{10, 10, 10}},
		"without a cooldown it acts on every tick":     {none, one(10, 1, 20), []int{200, 200, 200}, []int{11, 12, 13}},
		"it goes up to the maximum and stays":          {none, one(18, 1, 20), []int{200, 200, 200}, []int{19, 20, 20}},
		"it goes down to the minimum and stays":        {none, one(3, 1, 20), []int{0, 0, 0}, []int{2, 1, 1}},
		"a fixed pool is left alone":                   {none, one(4, 4, 4), []int{500, 0}, []int{4, 4}},
		"it rests between two actions":                 {policy.ERLDA{Cooldown: 3 * time.Second}, one(10, 1, 20), []int{200, 0, 0, 0}, []int{11, 11, 11, 10}},
		"a pause breaks the row of samples":            {policy.ERLDA{Samples: 2}, one(10, 1, 20), []int{200, 50, 200, 200}, []int{10, 10, 10, 11}},
		"cold breaks the row of hot samples":           {policy.ERLDA{Samples: 2}, one(10, 1, 20), []int{200, 0, 200, 0}, []int{10, 10, 10, 10}},
		"samples are counted while it rests":           {policy.ERLDA{Samples: 2}, one(10, 1, 20), []int{200, 200, 200, 200}, []int{10, 11, 11, 12}},
		"at the maximum it goes down at once":          {policy.ERLDA{Cooldown: time.Hour}, one(20, 1, 20), []int{200, 200, 0}, []int{20, 20, 19}},
		"below the minimum it is brought back at once": {policy.ERLDA{Samples: 9}, one(2, 5, 20), []int{50, 50}, []int{5, 5}},
		"above the maximum it is brought back at once": {policy.ERLDA{Samples: 9}, one(30, 5, 20), []int{500, 500}, []int{20, 20}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newRow(tt.law.New(), tt.stage)
			require.Equal(t, tt.want, f.run(tt.queue...))
			require.NoError(t, f.err)
		})
	}
}

func TestERLDAStatesItsReasons(t *testing.T) {
	tests := map[string]struct {
		law   policy.ERLDA
		stage controller.StageStats
		queue []int
		want  string
	}{
		"hot":                     {policy.ERLDA{}, controller.StageStats{}, []int{120}, "queue 120 > 100 for 1 sample"},
		"hot for a while":         {policy.ERLDA{Samples: 3}, controller.StageStats{}, []int{101, 102, 103}, "queue 103 > 100 for 3 samples"},
		"hot at a small capacity": {policy.ERLDA{}, controller.StageStats{QueueCap: 16}, []int{16}, "queue 16 > 8 for 1 sample"},
		"cold":                    {policy.ERLDA{}, controller.StageStats{Workers: 11}, []int{3}, "queue 3 < 10 for 1 sample"},
		"too few":                 {policy.ERLDA{}, controller.StageStats{Workers: 3}, []int{0}, "workers 3 < 10, the minimum"},
		"too many":                {policy.ERLDA{}, controller.StageStats{Workers: 300}, []int{0}, "workers 300 > 200, the maximum"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newRow(tt.law.New(), tt.stage)
			f.run(tt.queue...)
			require.Len(t, f.journal.Entries(), 1)
			require.Equal(t, tt.want, f.journal.Entries()[0].Why)
		})
	}
}

func TestERLDAJudgesEachStageByItself(t *testing.T) {
	f := newRow(policy.ERLDA{}.New(), withCapacities(1024, 300, 10)...)
	f.run(160)
	require.Equal(t, []int{11, 11, 11}, f.workers())
	f.stages[1].QueueCap = 1024
	f.run(50, 50) // the cooldown is over, and the stage is neither hot nor cold
	require.Equal(t, []int{11, 11, 12}, f.workers())
}

func TestERLDAIdentifiesStagesByNameAndForgetsRemovedOnes(t *testing.T) {
	f := newRow(policy.ERLDA{Cooldown: time.Hour}.New(), withCapacities(1024, 1024)...)
	f.run(120)
	require.Equal(t, []int{11, 11}, f.workers())
	f.stages = f.stages[1:]
	f.stages[0].ID = 0
	require.Equal(t, []int{11, 11}, f.run(120, 120), "it moved to the first place and its cooldown still runs")
	f.stages = []controller.StageStats{furnished(controller.StageStats{}, 0)}
	require.Equal(t, []int{11}, f.run(120), "a new stage has the name of an old one")
}

func TestERLDAAsksForTicksAtTheStartAndOnlyThen(t *testing.T) {
	s := &controller.Snapshot{Stages: []controller.StageStats{{Name: "parse", QueueLen: 500, Workers: 1, MaxWorkers: 9}}}
	for law, want := range map[policy.ERLDA]time.Duration{
		{}:                          time.Second,
		{Interval: 5 * time.Second}: 5 * time.Second,
		{Preset: policy.Areias}:     5 * time.Second,
		{Preset: policy.Areias, Interval: time.Minute}: time.Minute,
	} {
		c, d := law.New(), controller.Decisions{}
		for kind, interval := range map[controller.EventKind]time.Duration{
			controller.EventStart: want, controller.EventStop: 0, 99: 0,
		} {
			require.NoError(t, controller.Ask(c, controller.Event{Kind: kind}, s, &d))
			require.Equal(t, interval, d.Interval())
			_, _, ok := d.Wants(0)
			require.False(t, ok, "only a tick changes workers")
		}
	}
}

func TestTwoControllersOfOnePolicyShareNoMemory(t *testing.T) {
	law := policy.ERLDA{}
	first, second := newRow(law.New()), newRow(law.New())
	require.Equal(t, []int{11}, first.run(120))
	require.Equal(t, []int{11}, second.run(120))
}

func TestERLDAAcceptsZeroStagesAndZeroLoad(t *testing.T) {
	f := newRow(policy.ERLDA{}.New())
	f.stages = nil
	f.ask(controller.EventTick)
	require.NoError(t, f.err)
	idle := newRow(policy.ERLDA{}.New())
	require.Equal(t, []int{10, 10}, idle.run(0, 0))
	require.Empty(t, idle.journal.Entries())
}

func TestCheckReturnsAllFaultsAtOnce(t *testing.T) {
	tests := map[string]struct {
		law  policy.ERLDA
		want []string
	}{
		"the defaults are fine":    {policy.ERLDA{}, nil},
		"no cooldown is fine":      {policy.ERLDA{Cooldown: policy.NoCooldown}, nil},
		"the greatest are fine":    {policy.ERLDA{Interval: math.MaxInt64, Cooldown: math.MaxInt64, Up: math.MaxInt, Samples: math.MaxInt}, nil},
		"Up equal to Down":         {policy.ERLDA{Up: 7, Down: 7}, []string{"Up 7 is not more than Down 7"}},
		"Up below Down of default": {policy.ERLDA{Up: 5}, []string{"Up 5 is not more than Down 10; Down is the default"}},
		"Down above Up of default": {policy.ERLDA{Down: 200}, []string{"Up 100 is not more than Down 200; Up is the default"}},
		"a negative cooldown":      {policy.ERLDA{Cooldown: -time.Second}, []string{"Cooldown -1s is negative; use NoCooldown for none"}},
		"the article's preset":     {policy.ERLDA{Preset: policy.Areias}, nil},
		"another's preset":         {policy.ERLDA{Preset: policy.Welsh}, []string{`unknown Preset "welsh"; known is areias`}},
		"all at once": {
			policy.ERLDA{Interval: -1, Cooldown: -2, Up: -3, Down: -2, Samples: -5},
			[]string{"Interval -1ns", "Cooldown -2ns", "Up -3 is negative", "Down -2 is negative", "Up -3 is not more than Down -2", "Samples -5"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.law.Check()
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), len(tt.want))
			require.ErrorContains(t, err, "policy: erlda: ")
		})
	}
}
