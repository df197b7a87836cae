package steer_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/steer"
)

func counted(totals map[string]uint64, names ...string) *controller.Snapshot {
	s := &controller.Snapshot{}
	for i, name := range names {
		s.Stages = append(s.Stages, controller.StageStats{
			ID: controller.StageID(i), Name: name, Total: controller.Counters{OK: totals[name]},
		})
	}
	return s
}

func windows(s *controller.Snapshot) []uint64 {
	ws := make([]uint64, 0, len(s.Stages))
	for _, st := range s.Stages {
		ws = append(ws, st.Window.OK)
	}
	return ws
}

func TestAWindowIsWhatWasCountedSinceThePreviousCall(t *testing.T) {
	type totals = map[string]uint64
	steps := []struct {
		says   string
		totals totals
		names  []string
		want   []uint64
	}{
		{"the first reaches back to the start", totals{"a": 5, "b": 7}, []string{"a", "b"}, []uint64{5, 7}},
		{"then only new counts", totals{"a": 6, "b": 7}, []string{"a", "b"}, []uint64{1, 0}},
		{"stages are identified by name, not by place", totals{"a": 8, "b": 10}, []string{"b", "a"}, []uint64{3, 2}},
		{"a new stage shows its total", totals{"a": 8, "b": 10, "c": 4}, []string{"a", "b", "c"}, []uint64{0, 0, 4}},
		{"a stage may be removed", totals{"a": 9}, []string{"a"}, []uint64{1}},
		{"and come back as a new one", totals{"a": 9, "b": 12}, []string{"a", "b"}, []uint64{0, 12}},
		{"a restarted one shows its total", totals{"a": 2, "b": 12}, []string{"a", "b"}, []uint64{2, 0}},
	}
	var w steer.Windows
	for _, step := range steps {
		s := counted(step.totals, step.names...)
		w.Fill(s)
		require.Equal(t, step.want, windows(s), step.says)
	}
}

// The times and visits of shared pools have windows like all other counters.
func TestEveryCounterHasAWindow(t *testing.T) {
	var w steer.Windows
	first := controller.Counters{OK: 1, Busy: 5 * time.Second, Visits: 7, EmptyVisits: 2}
	second := controller.Counters{OK: 4, Busy: 8 * time.Second, Visits: 17, EmptyVisits: 2}
	s := &controller.Snapshot{Stages: []controller.StageStats{{Name: "a", Total: first}}}
	w.Fill(s)
	require.Equal(t, first, s.Stages[0].Window)
	s.Stages[0].Total = second
	w.Fill(s)
	require.Equal(t, controller.Counters{OK: 3, Busy: 3 * time.Second, Visits: 10}, s.Stages[0].Window)
	require.Zero(t, testing.AllocsPerRun(100, func() { w.Fill(s) }))
}

func TestTwoControllersDoNotDisturbEachOthersWindows(t *testing.T) {
	var often, seldom steer.Windows
	s := counted(map[string]uint64{"a": 5}, "a")
	often.Fill(s)
	s = counted(map[string]uint64{"a": 9}, "a")
	often.Fill(s)
	require.Equal(t, []uint64{4}, windows(s))
	seldom.Fill(s)
	require.Equal(t, []uint64{9}, windows(s))
}

// A counter that is added to the struct but forgotten in Sub fails here.
func TestSubTakesEveryCounterIntoAccount(t *testing.T) {
	var now, earlier controller.Counters
	fill := func(c *controller.Counters, n uint64) {
		for _, field := range reflect.ValueOf(c).Elem().Fields() {
			if field.CanInt() { // a time.Duration
				field.SetInt(int64(n))
				continue
			}
			field.SetUint(n)
		}
	}
	fill(&now, 12)
	fill(&earlier, 5)
	var want controller.Counters
	fill(&want, 7)
	require.Equal(t, want, now.Sub(earlier))
	require.Equal(t, earlier, earlier.Sub(now), "started afresh")
}
