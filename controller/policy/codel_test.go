package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// interval is a queue after a tenth of a second: the least wait of the commands that were taken, and the wait of the oldest one left.
func (h *limited) interval(least, oldest time.Duration) time.Duration {
	h.At += 100 * ms
	st := &h.Stages[0]
	st.Wait = durations{Least: least}
	if least >= 0 {
		st.Wait.Count = 10
	}
	st.QueueLen, st.OldestWait = 0, oldest
	if oldest > 0 {
		st.QueueLen = 1
	}
	st.Window = controller.Counters{Busy: 100 * ms}
	h.ask(controller.EventTick)
	return st.Sojourn
}

// The vector of folly's implementation: the time, the wait of a command that is taken then, and whether it is dropped. The first
// interval ends at once. folly lets the first command of an interval pass, here none is special.
func TestCoDelFollowsTheVectorOfFolly(t *testing.T) {
	type taken struct {
		at, wait     int
		drop, folly1 bool // folly1: it is the first of its interval, and folly does not drop it
	}
	h := newLimited(t, policy.CoDel{FIFO: true}, controller.StageStats{Name: "s", Discipline: "fifo"})
	for _, interval := range [][]taken{
		{{1, 20, false, false}},
		{{50, 30, true, true}, {101, 40, true, false}, {102, 12, true, false}, {150, 9, false, false}},
		{{160, 11, true, true}, {202, 4, false, false}, {203, 50, true, false}},
		{{303, 50, false, true}, {304, 50, false, false}},
	} {
		least := time.Hour
		for _, c := range interval {
			wait, bound := time.Duration(c.wait)*ms, h.Stages[0].Sojourn
			require.Equal(t, c.drop, bound > 0 && wait > bound, "%d, %d", c.at, c.wait)
			least = min(least, wait)
		}
		h.interval(least, 0)
	}
	require.Equal(t, "all of 10 commands waited for 50ms or more, target 5ms", h.journal[len(h.journal)-1].Why)
}

// The newest command goes first from the first interval of an overload until a second after the last one.
func TestCoDelTurnsTheQueueWhileItStands(t *testing.T) {
	h := newLimited(t, policy.CoDel{}, controller.StageStats{Name: "s", Discipline: "fifo"})
	st := &h.Stages[0]
	require.Zero(t, h.interval(5*ms, 50*ms), "one command had waited for no longer than the target")
	require.Equal(t, "fifo", st.Discipline)
	require.Equal(t, 10*ms, h.interval(6*ms, 50*ms))
	require.Equal(t, "lifo", st.Discipline)
	require.Equal(t, 10*ms, h.interval(0, 6*ms), "the newest command says nothing, the oldest does")
	require.Zero(t, h.interval(0, 5*ms))
	for range 8 {
		require.Zero(t, h.interval(0, 5*ms))
		require.Equal(t, "lifo", st.Discipline)
	}
	require.Zero(t, h.interval(0, 0))
	require.Equal(t, "fifo", st.Discipline)
	require.Equal(t, "no overload for 1s", h.journal[len(h.journal)-1].Why)

	st.Discipline = "priority"
	require.Equal(t, 10*ms, h.interval(6*ms, 50*ms))
	require.Equal(t, "priority", st.Discipline, "an order that the user has chosen stays")
}

func TestWorkersThatWereIdleShowThatTheQueueWasEmpty(t *testing.T) {
	h := newLimited(t, policy.CoDel{}, controller.StageStats{Name: "s", Discipline: "fifo"})
	h.interval(6*ms, 50*ms)
	st := &h.Stages[0]
	tick := func(idle time.Duration) time.Duration {
		h.At += 100 * ms
		st.Window = controller.Counters{Busy: 100*ms - idle, Idle: idle}
		h.ask(controller.EventTick)
		return st.Sojourn
	}
	require.Equal(t, 10*ms, tick(5*ms))
	require.Zero(t, tick(6*ms))
}

func TestCoDelJudgesWhereCommandsEnter(t *testing.T) {
	stages := func() []controller.StageStats {
		return []controller.StageStats{{Name: "entry"}, {Name: "later", Rank: 1}, {Name: "paused", Paused: true, Sojourn: ms}}
	}
	sojourns := func(group string) (all []time.Duration) {
		h := newLimited(t, policy.CoDel{}, stages()...)
		h.Group = group
		for i := range h.Stages {
			h.Stages[i].Wait = durations{Count: 1, Least: time.Second}
		}
		h.ask(controller.EventTick)
		for i := range h.Stages {
			all = append(all, h.Stages[i].Sojourn)
		}
		return all
	}
	require.Equal(t, []time.Duration{10 * ms, 0, 0}, sojourns(""), "the commands of a paused stage are not dropped")
	require.Equal(t, []time.Duration{10 * ms, 10 * ms, 0}, sojourns("later"))
}

// A wait is no overload that is the time of one command in its handler, or that a batch is collected for.
func TestTheTargetOfCoDelIsNoShorterThanACommandTakes(t *testing.T) {
	for want, st := range map[time.Duration]controller.StageStats{
		10 * ms:  {},
		30 * ms:  {Batch: controller.Batch{Max: 8, Linger: 10 * ms}},
		160 * ms: {Work: durations{Count: 3, Mean: 50 * ms}},
	} {
		st.Name = "s"
		h := newLimited(t, policy.CoDel{}, st)
		require.Zero(t, h.interval(want/2, 0))
		require.Equal(t, want, h.interval(want/2+ms, 0))
	}
}

// While no command is taken at all, the oldest says how long they wait.
func TestCoDelSeesAQueueThatStandsStill(t *testing.T) {
	h := newLimited(t, policy.CoDel{}, controller.StageStats{Name: "s"})
	require.Zero(t, h.interval(-1, 0))
	require.Equal(t, 10*ms, h.interval(-1, 6*ms))
	require.Equal(t, "1 wait, the oldest for 6ms, target 5ms", h.journal[0].Why)
}

func TestCoDelBoundsNoWaitBelowTwiceItsTargetWhateverItSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := policy.CoDel{
			Target: time.Duration(rapid.IntRange(0, 100).Draw(t, "target")) * ms, Interval: time.Duration(rapid.IntRange(0, 3).Draw(t, "interval")),
			FIFO: rapid.Bool().Draw(t, "fifo"),
		}
		require.NoError(t, law.Check())
		h := newLimited(t, law, controller.StageStats{Name: "s", Discipline: "fifo"})
		for range rapid.IntRange(1, 50).Draw(t, "ticks") {
			h.At += time.Duration(rapid.IntRange(0, 1000).Draw(t, "ms")) * ms
			st := &h.Stages[0]
			st.QueueLen, st.OldestWait = rapid.Int().Draw(t, "queue"), time.Duration(rapid.Int64().Draw(t, "oldest"))
			st.Paused = rapid.Bool().Draw(t, "paused")
			st.Batch.Linger = time.Duration(rapid.Int64().Draw(t, "linger"))
			st.Wait, st.Work = anyDurations(t), anyDurations(t)
			h.ask(controller.EventTick)
			require.True(t, st.Sojourn == 0 || st.Sojourn >= max(2*law.Target, 10*ms) || law.Target > 0 && st.Sojourn >= 2*law.Target, st.Sojourn)
			require.True(t, st.Sojourn == 0 || !st.Paused)
			require.True(t, !law.FIFO || st.Discipline == "fifo")
		}
	})
}

func TestACoDelWithoutSenseIsAFault(t *testing.T) {
	require.ErrorContains(t, policy.CoDel{Target: -1}.Check(), "Target -1ns is negative")
	require.ErrorContains(t, policy.CoDel{Interval: -1}.Check(), "Interval -1ns is negative")
	require.Equal(t, []controller.Knob{controller.KnobSojourn}, policy.CoDel{FIFO: true}.Claims())
}
