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

// limited is a stage under a policy of admission, with what each tick measures.
type limited struct {
	controller.Snapshot

	t        require.TestingT
	law      controller.Policy
	c        controller.Controller
	done     float64 // commands, by the first stage
	suffices bool    // the rate does
	journal  []controller.Change
}

// newLimited starts a policy over stages that wait for something outside.
func newLimited(t require.TestingT, law controller.Policy, stages ...controller.StageStats) *limited {
	h := &limited{t: t, law: law, c: law.New()}
	if len(stages) == 0 {
		stages = []controller.StageStats{{Name: "call", Blocking: true}}
	}
	h.Stages = stages
	for i := range h.Stages {
		h.Stages[i].ID = controller.StageID(i)
	}
	h.ask(controller.EventStart)
	return h
}

func (h *limited) ask(kind controller.EventKind) {
	var d controller.Decisions
	require.NoError(h.t, controller.Ask(h.c, controller.Event{Kind: kind, Stage: controller.NoStage}, &h.Snapshot, &d))
	changes, faults := controller.Settle(h.law.Name(), &h.Snapshot, &d)
	require.Empty(h.t, faults)
	for _, c := range changes {
		require.Contains(h.t, h.law.(controller.Claimer).Claims(), c.What)
		require.NotEqual(h.t, "no reason given", c.Why)
		admission := &h.Entry
		if c.Stage != controller.Entry {
			admission = &h.Stages[c.Stage].Admission
		}
		switch c.What {
		case controller.KnobLimit:
			admission.Limit = c.After.(int)
		case controller.KnobSojourn:
			h.Stages[c.Stage].Sojourn = c.After.(time.Duration)
		case controller.KnobDiscipline:
			h.Stages[c.Stage].Discipline = c.After.(string)
		case controller.KnobRate:
			admission.Rate = c.After.(controller.Rate)
		case controller.KnobQuality:
			h.Stages[c.Stage].Quality = c.After.(float64)
		case controller.KnobGate:
			admission.Gate = c.After.(controller.Gate)
		default:
		}
	}
	h.journal = append(h.journal, changes...)
}

// tick lets a second pass, in which the first stage has so many commands in flight, each of which takes so long in its
// handler.
func (h *limited) tick(inFlight float64, response float64) int {
	h.At += time.Second
	st := &h.Stages[0]
	h.done += inFlight / response
	done := math.Round(h.done) - float64(st.Total.OK)
	st.InHand = int(math.Round(inFlight))
	st.Total.OK += uint64(done)
	st.Total.Busy += time.Duration(done * response * 1e9)
	h.ask(controller.EventTick)
	return st.Admission.Limit
}

// The vector: from 20, with gradients of 1, 1, 0.75, 0.75 and 0.5, Gradient2 of Netflix goes to 20.8, 21.6, 21.32, 21.054 and, with
// no minimum, to 19.749.
func TestLimitFollowsTheVectorOfGradient2(t *testing.T) {
	h := newLimited(t, policy.Limit{})
	require.Equal(t, 20, h.Stages[0].Admission.Limit)
	usual := 0.1
	for range 60 {
		require.Equal(t, 20, h.tick(5, usual), "less than half of the limit is used")
	}
	for i, want := range []struct {
		gradient float64
		limit    int
	}{{1, 21}, {1, 22}, {0.75, 21}, {0.75, 21}, {0.5, 20}} {
		const weight = 2.0 / 601
		response := usual
		if want.gradient < 1 { // so that 1.5 · usual / response is the gradient, after usual has learnt of the response
			ratio := 1.5 / want.gradient
			response = ratio * usual * (1 - weight) / (1 - ratio*weight)
		}
		usual += (response - usual) * weight
		require.Equal(t, want.limit, h.tick(float64(h.Stages[0].Admission.Limit), response), i)
	}
	require.Contains(t, h.journal[len(h.journal)-1].Why, "limit 19.7")
}

func TestLimitLearnsNothingFromFewCommandsUntilThirtySecondsHavePassed(t *testing.T) {
	h := newLimited(t, policy.Limit{Initial: 4})
	for range 29 {
		require.Equal(t, 4, h.tick(4, 20))
	}
	require.Equal(t, 4, h.tick(4, 20))
	require.Equal(t, "30s", h.At.String())
	for range 29 {
		h.tick(4, 20)
	}
	require.Equal(t, 4, h.Stages[0].Admission.Limit, "4.2 after a sample of 0.2 a second")
	for range 61 {
		h.tick(4, 20)
	}
	require.Equal(t, 5, h.Stages[0].Admission.Limit, "4.6 after the third")

}

func TestLimitLimitsWhatWaitsForSomethingOutside(t *testing.T) {
	stages := func() []controller.StageStats {
		return []controller.StageStats{{Name: "parse"}, {Name: "call", Blocking: true}, {Name: "paused", Blocking: true, Paused: true}}
	}
	limits := func(h *limited) (all []int) {
		for i := range h.Stages {
			all = append(all, h.Stages[i].Admission.Limit)
		}
		return append(all, h.Entry.Limit)
	}
	h := newLimited(t, policy.Limit{Initial: 8}, stages()...)
	require.Equal(t, []int{0, 8, 0, 0}, limits(h))
	h.Stages[2].Paused = false
	h.ask(controller.EventTopology)
	require.Equal(t, []int{0, 8, 8, 0}, limits(h), "it is resumed")

	h = newLimited(t, policy.Limit{Initial: 8, Entry: true}, stages()...)
	require.Equal(t, []int{0, 0, 0, 8}, limits(h))

	h = newLimited(t, policy.Limit{Initial: 8})
	h.Group, h.Stages = "parse", stages()[:1]
	h.ask(controller.EventTopology)
	require.Equal(t, []int{8, 0}, limits(h), "a stage with a controller of its own")
}

// The entry is measured by the path that takes longest.
func TestLimitOfTheEntryFollowsTheTimeThroughThePipeline(t *testing.T) {
	h := newLimited(t, policy.Limit{Entry: true, Initial: 10},
		controller.StageStats{Name: "a", Next: []controller.StageID{1, 2}}, controller.StageStats{Name: "b"}, controller.StageStats{Name: "c"})
	tick := func(inFlight int, rate uint64, b time.Duration) int {
		h.At += time.Second
		h.InFlight = inFlight
		h.Stages[0].Total.Forwarded += 100
		for i, d := range []time.Duration{10 * time.Millisecond, b, 5 * time.Millisecond} {
			h.Stages[i].Work = durations{Count: 50, Mean: d}
		}
		h.Stages[1].Total.OK += rate / 2
		h.Stages[2].Total.OK += rate / 2
		h.ask(controller.EventTick)
		return h.Entry.Limit
	}
	for range 20 {
		require.Equal(t, 10, tick(3, 50, 40*time.Millisecond))
	}
	require.Equal(t, 11, tick(10, 100, 40*time.Millisecond), "it took no longer than usual")
	require.Less(t, tick(11, 100, 400*time.Millisecond), 11)
	require.Contains(t, h.journal[len(h.journal)-1].Why, "410ms at 41.0 in flight, usually 5")
}

func TestLimitStaysWithinItsBoundsWhateverItSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := policy.Limit{
			Entry: rapid.Bool().Draw(t, "entry"), Least: rapid.IntRange(0, 5).Draw(t, "least"),
			Interval: time.Duration(rapid.IntRange(0, 3).Draw(t, "interval")),
		}
		if rapid.Bool().Draw(t, "bounded") {
			law.Initial = max(law.Least, 1) + rapid.IntRange(0, 9).Draw(t, "initial")
			law.Most = law.Initial + rapid.IntRange(0, 9).Draw(t, "most")
		}
		require.NoError(t, law.Check())
		h := newLimited(t, law)
		for range rapid.IntRange(1, 80).Draw(t, "ticks") {
			h.At += time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond
			h.InFlight = rapid.Int().Draw(t, "all in flight")
			st := &h.Stages[0]
			st.QueueLen, st.InHand = rapid.Int().Draw(t, "queue"), rapid.Int().Draw(t, "in hand")
			st.Instances, st.FreeInstances = rapid.Int().Draw(t, "instances"), rapid.Int().Draw(t, "free")
			st.Total.OK += uint64(rapid.IntRange(0, 100).Draw(t, "done"))
			st.Total.Busy += time.Duration(rapid.IntRange(0, 10_000).Draw(t, "busy")) * time.Millisecond
			st.Wait = anyDurations(t)
			st.Work = anyDurations(t)
			h.ask(rapid.SampledFrom([]controller.EventKind{
				controller.EventTick, controller.EventTick, controller.EventTopology, controller.EventQueueFull, controller.EventStop,
			}).Draw(t, "event"))
		}
		for _, c := range h.journal {
			require.GreaterOrEqual(t, c.After, max(law.Least, 1))
			if law.Most > 0 {
				require.LessOrEqual(t, c.After, law.Most)
			}
		}
	})
}

// durations is the type of the times of a stage.
type durations struct {
	Count            uint64
	Least, Mean, P90 time.Duration
}

func anyDurations(t *rapid.T) durations {
	d := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, name))
	}
	return durations{Count: rapid.Uint64Range(0, 1000).Draw(t, "count"), Least: d("least"), Mean: d("mean"), P90: d("p90")}
}

func TestALimitWithoutSenseIsAFault(t *testing.T) {
	for want, law := range map[string]policy.Limit{
		"Least -1 is negative":                                  {Least: -1},
		"Initial -1 is negative":                                {Initial: -1},
		"Most -1 is negative":                                   {Most: -1},
		"Least 5, Initial 4 and Most 200 are not in this order": {Least: 5, Initial: 4},
		"Least 1, Initial 9 and Most 8 are not in this order":   {Initial: 9, Most: 8},
		"Interval -1s is negative":                              {Interval: -time.Second},
	} {
		require.ErrorContains(t, law.Check(), want)
	}
	for _, law := range []policy.Limit{{}, {Most: 5}, {Least: 50}, {Least: 500}, {Initial: 300}, {Least: 7, Most: 7}} {
		require.NoError(t, law.Check(), law)
	}
}
