package controller_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
)

// law makes a function a controller.
type law func(ev controller.Event, s *controller.Snapshot, d *controller.Decisions)

func (f law) Control(ev controller.Event, s *controller.Snapshot, d *controller.Decisions) {
	f(ev, s, d)
}

var tick = controller.Event{Kind: controller.EventTick}

func twoStages() *controller.Snapshot {
	return &controller.Snapshot{At: 3 * time.Second, CPUs: 2, Stages: []controller.StageStats{
		{ID: 0, Name: "parse", Workers: 4, MinWorkers: 2, MaxWorkers: 8},
		{ID: 1, Name: "save", Workers: 1, MinWorkers: 1, MaxWorkers: 1},
	}}
}

func TestAnEventKindHasAWord(t *testing.T) {
	for kind, word := range map[controller.EventKind]string{
		controller.EventStart:      "start",
		controller.EventTick:       "tick",
		controller.EventStop:       "stop",
		controller.EventRoundEnd:   "round end",
		controller.EventVisits:     "visits",
		controller.EventTopology:   "topology",
		controller.EventQueueFull:  "queue full",
		controller.EventStarved:    "starved",
		controller.EventWorkerDied: "worker died",
		0:                          "none",
		200:                        "none",
	} {
		require.Equal(t, word, kind.String())
	}
}

func TestTheLaterOfTwoWishesWins(t *testing.T) {
	var d controller.Decisions
	controller.KnobWorkers.Set(&d, 0, 5, "first")
	controller.KnobWorkers.Set(&d, 1, 9, "between")
	controller.KnobWorkers.Set(&d, 0, 6, "second")
	n, why, ok := d.Wants(0)
	require.True(t, ok)
	require.Equal(t, 6, n)
	require.Equal(t, "second", why)

	changes, faults := controller.Settle("mine", twoStages(), &d)
	require.Empty(t, faults)
	require.Len(t, changes, 1, "save may not have more than its one worker")
	require.Equal(t, 6, changes[0].After)
}

func TestTheLastIntervalWinsAndIsNeverShorterThanTheShortest(t *testing.T) {
	var d controller.Decisions
	require.Zero(t, d.Interval(), "no interval was set")
	d.Every(time.Hour)
	d.Every(time.Second)
	require.Equal(t, time.Second, d.Interval())
	for _, tooShort := range []time.Duration{time.Microsecond, 0, -time.Hour} {
		d.Every(tooShort)
		require.Equal(t, time.Millisecond, d.Interval())
	}
}

func TestResetRemovesAllWishes(t *testing.T) {
	var d controller.Decisions
	d.Reset() // works on the zero value
	d.Every(time.Second)
	controller.KnobWorkers.Set(&d, 0, 5, "busy")
	d.Reset()
	require.Zero(t, d.Interval())
	_, _, ok := d.Wants(0)
	require.False(t, ok)
	changes, faults := controller.Settle("mine", twoStages(), &d)
	require.Empty(t, changes)
	require.Empty(t, faults)
	controller.KnobWorkers.Set(&d, 1, 7, "after")
	n, _, _ := d.Wants(1)
	require.Equal(t, 7, n)
}

func TestDecidingAgainAndAgainAllocatesNothing(t *testing.T) {
	var d controller.Decisions
	s := twoStages()
	c := controller.Controller(law(func(_ controller.Event, s *controller.Snapshot, d *controller.Decisions) {
		d.Every(time.Second)
		controller.KnobWorkers.Set(d, 0, s.Stages[0].Workers, "as it is")
	}))
	allocs := testing.AllocsPerRun(100, func() {
		_ = controller.Ask(c, tick, s, &d)
		_, _ = controller.Settle("mine", s, &d)
	})
	require.Zero(t, allocs)
}

func TestSettleLimitsWishesToTheBoundsAndSaysSo(t *testing.T) {
	tests := map[string]struct {
		stage controller.StageID
		want  int
		why   string
		after int // zero: no change
		says  string
	}{
		"within the bounds":          {0, 5, "queue 9 > 8", 5, "queue 9 > 8"},
		"above the most":             {0, 99, "queue 9 > 8", 8, "queue 9 > 8 (wanted 99, limited to the maximum, 8)"},
		"below the least":            {0, -1, "queue 0 < 1", 2, "queue 0 < 1 (wanted -1, limited to the minimum, 2)"},
		"without a reason":           {0, 5, "", 5, "no reason given"},
		"the current value":          {0, 4, "stay", 0, ""},
		"limited to the current one": {1, 7, "more", 0, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var d controller.Decisions
			controller.KnobWorkers.Set(&d, tt.stage, tt.want, tt.why)
			changes, faults := controller.Settle("mine", twoStages(), &d)
			require.Empty(t, faults)
			if tt.after == 0 {
				require.Empty(t, changes)
				return
			}
			require.Equal(t, []controller.Change{{
				At: 3 * time.Second, Policy: "mine", Stage: 0, StageName: "parse",
				What: controller.KnobWorkers, Before: 4, After: tt.after, Why: tt.says,
			}}, changes)
		})
	}
}

func TestAWishForAnUnknownStageIsAFaultAndOtherWishesCount(t *testing.T) {
	var d controller.Decisions
	controller.KnobWorkers.Set(&d, 7, 3, "ghost")
	controller.KnobWorkers.Set(&d, 0, 5, "busy")
	controller.KnobWorkers.Set(&d, -1, 3, "ghost")
	changes, faults := controller.Settle("mine", twoStages(), &d)
	require.Len(t, changes, 1)
	require.Len(t, faults, 2)
	require.EqualError(t, faults[0], `controller: policy "mine": decision for unknown stage 7`)
	require.EqualError(t, faults[1], `controller: policy "mine": decision for unknown stage -1`)
}

func TestASnapshotFindsItsPoolsByName(t *testing.T) {
	s := fourStages()
	require.Equal(t, 3, s.Pool("both").Workers)
	require.Same(t, &s.Pools[0], s.Pool("parse"), "the pool itself, not a copy")
	require.Nil(t, s.Pool("ghost"))
	require.Nil(t, s.Pool(""))
	require.Nil(t, (&controller.Snapshot{}).Pool("parse"))
}

func TestTheServiceTimeIsThatOfTheWindowIfAnythingWasHandledInIt(t *testing.T) {
	total := controller.Counters{OK: 6, Forwarded: 3, Errors: 1, Busy: 10 * time.Second}
	tests := map[string]struct {
		total, window controller.Counters
		want          time.Duration
	}{
		"never":                   {controller.Counters{}, controller.Counters{}, 0},
		"in the window":           {total, controller.Counters{Errors: 2, Busy: time.Second}, 500 * time.Millisecond},
		"not in the window":       {total, controller.Counters{}, time.Second},
		"crashes only":            {controller.Counters{Crashes: 3, Busy: time.Second}, controller.Counters{}, 0},
		"faster than the clock":   {total, controller.Counters{OK: 5}, time.Second},
		"a clock that stops":      {controller.Counters{OK: 5}, controller.Counters{OK: 5}, 0},
		"busy, but with the next": {total, controller.Counters{Busy: time.Second}, time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			st := controller.StageStats{Total: tt.total, Window: tt.window}
			require.Equal(t, tt.want, st.Service())
		})
	}
}

func TestNoStagesAtAllAreLegal(t *testing.T) {
	var d controller.Decisions
	changes, faults := controller.Settle("mine", &controller.Snapshot{}, &d)
	require.Empty(t, changes)
	require.Empty(t, faults)
}

func TestAChangePrintsAsOneLine(t *testing.T) {
	c := controller.Change{
		At: 62 * time.Second, Policy: "erlda", StageName: "parse", What: controller.KnobWorkers,
		Before: 10, After: 11, Why: "queue 120 > 100 for 1 sample",
	}
	require.Equal(t, `1m2s erlda: stage "parse": workers 10 to 11: queue 120 > 100 for 1 sample`, c.String())
}

func TestAskResetsTheDecisions(t *testing.T) {
	var d controller.Decisions
	controller.KnobWorkers.Set(&d, 0, 5, "from the last call")
	err := controller.Ask(law(func(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
		controller.KnobWorkers.Set(d, 1, 2, "from this call")
	}), tick, twoStages(), &d)
	require.NoError(t, err)
	_, _, ok := d.Wants(0)
	require.False(t, ok)
	_, _, ok = d.Wants(1)
	require.True(t, ok)
}

func TestAPanicKeepsTheLastDecisionsInForce(t *testing.T) {
	boom := errors.New("boom")
	var calls int
	c := law(func(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
		calls++
		controller.KnobWorkers.Set(d, 0, 5, "an incomplete answer")
		d.Every(time.Hour)
		if calls == 1 {
			panic(boom)
		}
	})
	var d controller.Decisions
	err := controller.Ask(c, tick, twoStages(), &d)
	var p *controller.PanicError
	require.ErrorAs(t, err, &p)
	require.ErrorIs(t, err, boom)
	require.Equal(t, boom, p.Value)
	require.Contains(t, string(p.Stack), "controller_test.go", "the stack shows where")
	require.EqualError(t, err, "controller: panicked: boom")
	require.Zero(t, d.Interval())
	changes, faults := controller.Settle("mine", twoStages(), &d)
	require.Empty(t, changes)
	require.Empty(t, faults)

	require.NoError(t, controller.Ask(c, tick, twoStages(), &d), "the controller may be called again")
	require.Equal(t, time.Hour, d.Interval())
}

func TestAPanicWithoutAnErrorAndANilControllerAreErrorsToo(t *testing.T) {
	var d controller.Decisions
	err := controller.Ask(law(func(controller.Event, *controller.Snapshot, *controller.Decisions) {
		panic("words")
	}), tick, twoStages(), &d)
	require.EqualError(t, err, "controller: panicked: words")
	require.NoError(t, errors.Unwrap(err))
	require.Error(t, controller.Ask(nil, tick, twoStages(), &d))
}
