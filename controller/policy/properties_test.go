package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

func anyERLDA(t *rapid.T) policy.ERLDA {
	down := rapid.IntRange(1, 40).Draw(t, "down")
	law := policy.ERLDA{
		Cooldown: time.Duration(rapid.IntRange(1, 5000).Draw(t, "cooldown")) * time.Millisecond,
		Down:     down,
		Up:       down + rapid.IntRange(1, 40).Draw(t, "up"),
		Samples:  rapid.IntRange(0, 4).Draw(t, "samples"),
	}
	if rapid.Bool().Draw(t, "no cooldown") {
		law.Cooldown = policy.NoCooldown
	}
	require.NoError(t, law.Check())
	return law
}

func anyStage(t *rapid.T) controller.StageStats {
	least := rapid.IntRange(1, 5).Draw(t, "least")
	most := least + rapid.IntRange(0, 5).Draw(t, "span")
	return controller.StageStats{
		QueueCap:   rapid.IntRange(-1, 120).Draw(t, "capacity"),
		MinWorkers: least, MaxWorkers: most,
		Workers: rapid.IntRange(least, most).Draw(t, "workers"),
	}
}

// A walk through any lengths at any times: the promises of the law, whatever comes.
func TestERLDAKeepsItsPromisesUnderAnyLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := anyERLDA(t)
		stages := rapid.SliceOfN(rapid.Custom(anyStage), 0, 3).Draw(t, "stages")
		f := newFloor(law.New(), append(stages, anyStage(t))...)
		last := map[controller.StageID]time.Duration{}
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			f.now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
			for i := range f.stages {
				f.stages[i].QueueLen = rapid.IntRange(0, 130).Draw(t, "queue")
			}
			before := f.journal.Entries()
			f.ask(controller.EventTick)
			require.NoError(t, f.err)
			for _, c := range f.journal.Entries()[len(before):] {
				requireALawfulStep(t, law, f, c, last)
			}
		}
	})
}

func requireALawfulStep(
	t *rapid.T, law policy.ERLDA, f *floor, c controller.Change, last map[controller.StageID]time.Duration,
) {
	st := f.stages[c.Stage]
	require.GreaterOrEqual(t, c.After, st.MinWorkers)
	require.LessOrEqual(t, c.After, st.MaxWorkers)
	require.Equal(t, 1, max(c.After-c.Before, c.Before-c.After), "one step")
	require.NotContains(t, c.Why, "held", "the law keeps the bounds by itself")
	if at, ok := last[c.Stage]; ok {
		require.GreaterOrEqual(t, c.At-at, law.Cooldown)
	}
	last[c.Stage] = c.At
	if c.After > c.Before {
		require.Positive(t, st.QueueLen, "nobody is hired for nothing")
	}
}

func TestERLDAIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := anyERLDA(t)
		queue := rapid.SliceOfN(rapid.IntRange(0, 200), 1, 50).Draw(t, "queue")
		once, again := newFloor(law.New()).run(queue...), newFloor(law.New()).run(queue...)
		require.Equal(t, once, again)
	})
}

// Whatever the shell shows, the law answers without a panic and within bounds.
func TestERLDATakesAnySnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := policy.ERLDA{}.New()
		var d controller.Decisions
		for range rapid.IntRange(1, 10).Draw(t, "ticks") {
			s := &controller.Snapshot{At: time.Duration(rapid.Int64().Draw(t, "at"))}
			for i := range rapid.IntRange(0, 3).Draw(t, "stages") {
				s.Stages = append(s.Stages, controller.StageStats{
					ID: controller.StageID(i), Name: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name"),
					QueueLen: rapid.Int().Draw(t, "queue"), QueueCap: rapid.Int().Draw(t, "capacity"),
					Workers: rapid.Int().Draw(t, "workers"), MinWorkers: rapid.Int().Draw(t, "least"),
					MaxWorkers: rapid.Int().Draw(t, "most"),
				})
			}
			require.NoError(t, controller.Ask(c, controller.Event{Kind: controller.EventTick}, s, &d))
			changes, faults := controller.Settle("erlda", s, &d)
			require.Empty(t, faults)
			for _, ch := range changes {
				st := s.Stages[ch.Stage]
				require.GreaterOrEqual(t, ch.After, st.MinWorkers)
				require.LessOrEqual(t, ch.After, max(st.MinWorkers, st.MaxWorkers))
			}
		}
	})
}
