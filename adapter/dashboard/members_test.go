package dashboard_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestTheLettersOfAllProcessesOfAFleetAreShown(t *testing.T) {
	h := newHerd(t, "a", "b", "c")
	h.answer(t, dashboard.Options{}, "a", "b") // c keeps its letters
	for name, times := range map[string]int{"a": 1, "b": 2, "c": 1} {
		for range times {
			h.shops[name].busy(t)
		}
	}
	require.Eventually(t, func() bool { return h.shops["b"].Failures().Len() == 2 && h.shops["b"].Quarantine().Len() == 2 }, giveUp, time.Millisecond)
	server := serve(t, h.dashboard(t, dashboard.Options{}))

	groups := map[string]api.Failure{}
	for _, g := range read[api.Failures](t, server, "/failures").Groups {
		groups[g.Store] = g
	}
	require.Len(t, groups, 2)
	for _, store := range []string{"failures", "quarantine"} {
		g := groups[store]
		require.EqualValues(t, 3, g.Count, store)
		require.Equal(t, 3, g.Kept, store)
		require.Equal(t, []string{"a", "b"}, g.Processes, store)
		require.Contains(t, g.Processes, g.Sample.Process, store)
		require.False(t, g.Sample.At.Before(g.First), store)
		require.False(t, g.Last.Before(g.Sample.At), store)
	}

	all := read[api.Letters](t, server, "/letters?store=failures")
	require.Equal(t, 3, all.Total)
	processes := map[string]int{}
	for i, l := range all.Letters {
		processes[l.Process]++
		if i > 0 {
			require.False(t, l.At.Before(all.Letters[i-1].At), "the oldest first")
		}
	}
	require.Equal(t, map[string]int{"a": 1, "b": 2}, processes)
	require.Len(t, read[api.Letters](t, server, "/letters?store=failures&limit=2").Letters, 2)
	require.Empty(t, read[api.Letters](t, server, "/letters?store=failures&since=1").Letters, "numbers are of one process")
	first := read[api.Letters](t, server, "/letters?store=failures&process=b&limit=1")
	require.Len(t, first.Letters, 1)
	rest := read[api.Letters](t, server, "/letters?store=failures&process=b&since="+strconv.FormatUint(first.Last, 10))
	require.Len(t, rest.Letters, 1)
	require.NotEqual(t, first.Letters[0].N, rest.Letters[0].N)

	for _, p := range read[api.Fleet](t, server, "/processes").Processes {
		require.Equal(t, p.Name != "c", p.Answers, p.Name)
		require.Empty(t, p.Error)
	}
}

func TestTheJournalOfAFleetHasTheChangesOfAllProcesses(t *testing.T) {
	h := newHerd(t, "a", "b")
	h.answer(t, dashboard.Options{}, "a", "b")
	server := serve(t, h.dashboard(t, dashboard.Options{}))
	note := func(name string) {
		t.Helper()
		link.Operate(h.shops[name].Pipeline).Note("operator:"+name, "retry", "pay", nil, nil, "a note")
	}
	notes := func(since uint64) (all []api.Change) {
		for _, c := range read[api.Journal](t, server, "/journal?since="+strconv.FormatUint(since, 10)).Changes {
			if c.Reason == "a note" {
				all = append(all, c)
			}
		}
		return all
	}
	one := func(all []api.Change) bool { return len(all) == 1 }
	note("a")
	first := soon(t, func() []api.Change { return notes(0) }, one)[0]
	require.Equal(t, "a", first.Process)
	require.Equal(t, "operator:a", first.Who)
	note("b")
	second := soon(t, func() []api.Change { return notes(first.N) }, one)[0]
	require.Equal(t, "b", second.Process)
	require.Greater(t, second.N, first.N)
	require.Len(t, notes(0), 2, "no change is there twice")
	h.set("a", "lost")
	soon(t, func() []api.Process { return read[api.Fleet](t, server, "/processes").Processes }, func(all []api.Process) bool {
		return slices.ContainsFunc(all, func(p api.Process) bool { return p.State == "lost" })
	})
	require.Len(t, notes(0), 2, "the changes of a process that is lost stay")
}

func TestAProcessThatDoesNotAnswerIsNamed(t *testing.T) {
	h := newHerd(t, "a", "b")
	h.answer(t, dashboard.Options{}, "a")
	h.pages["b"] = http.NotFoundHandler()
	h.shops["a"].busy(t)
	server := serve(t, h.dashboard(t, dashboard.Options{}))
	require.Len(t, read[api.Failures](t, server, "/failures").Groups, 2)
	soon(t, func() []api.Process { return read[api.Fleet](t, server, "/processes").Processes }, func(all []api.Process) bool {
		return slices.ContainsFunc(all, func(p api.Process) bool { return p.Name == "b" && strings.Contains(p.Error, "its dashboard: 404") })
	})
	h.answer(t, dashboard.Options{}, "b")
	soon(t, func() []api.Process { return read[api.Fleet](t, server, "/processes").Processes }, func(all []api.Process) bool {
		return !slices.ContainsFunc(all, func(p api.Process) bool { return p.Error != "" })
	})
}

// newHerdOf returns a fleet of processes that all answer.
func newHerdOf(t *testing.T, o dashboard.Options, pipelines map[string]*pipeline.Pipeline) *herd {
	t.Helper()
	h := newHerd(t)
	for name, p := range pipelines {
		h.shops[name] = &shop{Pipeline: p}
		h.answer(t, o, name)
	}
	return h
}

func TestTheKeysOfAllProcessesOfAFleetAreShown(t *testing.T) {
	a, b := newLedger(t), newLedger(t)
	a.park(t, 6)
	b.park(t, 3)
	h := newHerdOf(t, dashboard.Options{Payloads: true}, map[string]*pipeline.Pipeline{"a": a.Pipeline, "b": b.Pipeline})
	server := serve(t, h.dashboard(t, dashboard.Options{}))
	all := read[hotKeys](t, server, "/keys?stage=book")
	require.True(t, all.Whole)
	require.Len(t, all.Keys, 2)
	for i, want := range []hotKey{{Name: hostile, Waiting: 5, Parked: true, Process: "a"}, {Name: hostile, Waiting: 2, Parked: true, Process: "b"}} {
		want.Hash = all.Keys[i].Hash
		require.Equal(t, want, all.Keys[i])
	}
	require.Len(t, read[hotKeys](t, server, "/keys?stage=book&limit=1").Keys, 1)
	require.Empty(t, read[hotKeys](t, server, "/keys?stage=none").Keys, "no process has the stage, so none is asked")
	require.Equal(t, 2, read[api.Failures](t, server, "/failures").Groups[0].Parked)
}

func TestTheWindowsOfAllProcessesOfAFleetAreAddedUp(t *testing.T) {
	a, submitA := newTeller(t)
	b, submitB := newTeller(t)
	h := newHerdOf(t, dashboard.Options{}, map[string]*pipeline.Pipeline{"a": a, "b": b})
	server := serve(t, h.dashboard(t, dashboard.Options{}))
	submitA(1)
	for n := range 4 {
		submitB(n)
	}
	got := soon(t, func() stageTimers { return read[stageTimers](t, server, "/timers?stage=sums") }, func(got stageTimers) bool {
		return got.Windows != nil && got.Windows.Open == 3 && got.Windows.Commands == 5 && len(got.Ticks) == 2
	})
	require.True(t, got.Windows.Whole)
	require.Positive(t, got.Windows.OldestNs)
	require.ElementsMatch(t, []string{"a", "b"}, []string{got.Ticks[0].Process, got.Ticks[1].Process})
	require.LessOrEqual(t, got.Ticks[0].InNs, got.Ticks[1].InNs)
}

func TestTheWorkersOfAllProcessesOfAFleetAreShown(t *testing.T) {
	release := make(chan struct{})
	pipelines := map[string]*pipeline.Pipeline{}
	for _, name := range []string{"a", "b"} {
		hang := stage.Sink("hang", func(context.Context, int) error { <-release; return nil })
		p, err := pipeline.New("shop", hang, pipeline.Logger(discard()))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		t.Cleanup(func() {
			require.NoError(t, p.Stop(context.Background())) //nolint:usetesting // the test's has ended
		})
		require.NoError(t, hang.Submit(t.Context(), 1))
		pipelines[name] = p
	}
	t.Cleanup(func() { close(release) })
	server := serve(t, newHerdOf(t, dashboard.Options{}, pipelines).dashboard(t, dashboard.Options{}))
	work := soon(t, func() api.Work { return read[api.Work](t, server, "/workers") }, func(w api.Work) bool {
		return len(w.Stages) == 1 && len(w.Stages[0].Busy) == 2
	})
	busy := work.Stages[0].Busy
	require.ElementsMatch(t, []string{"a", "b"}, []string{busy[0].Process, busy[1].Process})
	require.GreaterOrEqual(t, busy[0].Ns, busy[1].Ns)
	require.Equal(t, []int{1, 2}, []int{busy[0].Worker, busy[1].Worker})
}
