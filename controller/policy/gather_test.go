package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

func homes(h *fake) []string {
	all := make([]string, 0, len(h.Stages))
	for i := range h.Stages {
		all = append(all, h.Stages[i].Pool)
	}
	return all
}

func TestAllStagesShareOnePoolExceptThoseThatKeepTheirOwn(t *testing.T) {
	tests := map[string]struct {
		change func(stages []controller.StageStats)
		want   []string
		order  string
	}{
		"all":                       {func([]controller.StageStats) {}, []string{"shared", "shared", "shared"}, "1 2 3 2"},
		"a paused one is left out":  {func(s []controller.StageStats) { s[1].Paused = true }, []string{"shared", "2", "shared"}, "1 3"},
		"one that blocks keeps its": {func(s []controller.StageStats) { s[0].Blocking = true }, []string{"1", "shared", "shared"}, "2 3"},
		"a group stays together":    {func(s []controller.StageStats) { s[0].Pool = "disk" }, []string{"disk", "shared", "shared"}, "2 3"},
		"even if it blocks": {
			func(s []controller.StageStats) { s[0].Pool, s[0].Blocking = "disk", true },
			[]string{"disk", "shared", "shared"},
			"2 3",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stages := line(3)
			tt.change(stages)
			h := newFake(policy.Cohort{}, stages...)
			h.sound(t)
			require.Equal(t, tt.want, homes(h))
			require.Equal(t, tt.order, h.order())
		})
	}
}

func TestEachGroupHasAPlanOfItsOwn(t *testing.T) {
	stages := line(4)
	stages[1].Pool, stages[3].Pool = "disk", "disk"
	h := newFake(policy.Cohort{}, stages...)
	h.sound(t)
	disk := h.Pool("disk")
	require.Equal(t, "1 3", h.order())
	require.Equal(t, "2 4", orderOf(disk.Plan))
	require.Equal(t, controller.Polled, disk.Dispatch)
	require.Equal(t, 3, disk.Workers, "the group keeps its own number")
}

func TestThereIsOneWorkerPerCPUOrTheConfiguredNumber(t *testing.T) {
	tests := map[string]struct {
		law          controller.Policy
		shared, disk int
	}{
		"one per CPU":    {policy.Cohort{}, 2, 3},
		"configured":     {policy.Cohort{Workers: 5}, 5, 5},
		"one queue":      {policy.Color{Workers: 4}, 4, 4},
		"the original's": {policy.Cohort{Preset: policy.Cruz}, 2, 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stages := line(2)
			stages[1].Pool = "disk"
			h := newFake(tt.law, stages...)
			h.sound(t)
			require.Equal(t, tt.shared, h.Pool(policy.SharedPool).Workers)
			require.Equal(t, tt.disk, h.Pool("disk").Workers)
		})
	}
}

func TestTheSharedPoolTakesAFreeName(t *testing.T) {
	stages := line(3)
	stages[0].Name, stages[1].Pool = "shared", "shared 2"
	h := newFake(policy.Color{}, stages...)
	h.sound(t)
	require.Equal(t, []string{"shared 3", "shared 2", "shared 3"}, homes(h))
}

func TestWithoutSharingStagesThereIsNoPool(t *testing.T) {
	stages := line(2)
	stages[0].Blocking, stages[1].Blocking = true, true
	h := newFake(policy.Cohort{}, stages...)
	h.sound(t)
	require.Empty(t, h.journal)
}

func TestANewOrResumedStageIsGathered(t *testing.T) {
	stages := line(3)
	stages[2].Paused = true
	h := newFake(policy.Cohort{}, stages...)
	require.Equal(t, "1 2", h.order())
	h.Stages[2].Paused = false
	h.ask(controller.EventTopology)
	h.sound(t)
	require.Equal(t, "1 2 3 2", h.order())
	require.Equal(t, []string{"shared", "shared", "shared"}, homes(h))

	h.Stages[0].Paused = true
	h.ask(controller.EventTopology)
	h.sound(t)
	require.Equal(t, "2 3", h.order())
}

// The engine goes back to its own settings for every knob on which a policy that takes over does not decide.
func TestAPolicyOfVisitsDecidesOnAllItsKnobsAtTheStartAndWhenTheTopologyChanges(t *testing.T) {
	forEveryVisitor(t, func(t *testing.T, law controller.Policy) {
		h := newFake(law, line(3)...)
		for _, kind := range []controller.EventKind{controller.EventStart, controller.EventTopology} {
			h.c = law.New()
			h.ask(kind)
			h.sound(t)
			for i := range h.Stages {
				_, _, ok := controller.KnobPool.Wish(&h.d, controller.StageID(i))
				require.True(t, ok)
			}
			_, _, workers := controller.KnobWorkers.PoolWish(&h.d, policy.SharedPool)
			_, _, dispatch := controller.KnobDispatch.PoolWish(&h.d, policy.SharedPool)
			_, _, visit := controller.KnobVisit.PoolWish(&h.d, policy.SharedPool)
			require.True(t, workers && dispatch && visit)
		}
	})
}

func TestOtherEventsDoNotChangeAPolicyOfVisits(t *testing.T) {
	forEveryVisitor(t, func(t *testing.T, law controller.Policy) {
		h := newFake(law, line(3)...)
		h.journal = nil
		h.At += time.Minute
		for _, ev := range []controller.Event{
			{Kind: controller.EventRoundEnd, Pool: "nobody's"},
			{Kind: controller.EventStarved, Stage: 77},
			{Kind: controller.EventStarved, Stage: controller.NoStage},
			{Kind: controller.EventQueueFull, Stage: 1},
			{Kind: controller.EventVisits},
			{Kind: controller.EventWorkerDied, Pool: policy.SharedPool},
			{Kind: controller.EventStop},
			{Kind: 77},
		} {
			h.tell(ev)
		}
		h.sound(t)
		require.Empty(t, h.journal)
	})
}
