package pipeline_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// admitting returns the names of the policies that refuse and drop no command.
func admitting() []string {
	return slices.DeleteFunc(policy.Names(), func(name string) bool {
		return slices.Contains([]string{"seda:cruz", "codel", "rt90", "shed"}, name)
	})
}

// laws returns all named policies that refuse no command, and all ways to share workers.
func laws(t *testing.T) (all []controller.Policy) {
	t.Helper()
	for _, name := range admitting() {
		law, err := policy.ByName(name)
		require.NoError(t, err)
		all = append(all, law)
	}
	for _, law := range ways(3) {
		all = append(all, law)
	}
	return all
}

func TestPoliciesAreSwappedUnderLoadWithoutLoss(t *testing.T) {
	storm, every := lasting(time.Second, 10*time.Second), lasting(5*time.Millisecond, 20*time.Millisecond)
	entry, parts := line(4, func(_, _ int) error {
		switch rand.IntN(400) {
		case 0:
			panic("on purpose")
		case 1:
			runtime.Goexit()
		}
		return nil
	}, stage.Capacity(64), stage.Workers(1, 4))
	p := run(t, parts...)
	ctx, cancel := context.WithCancel(context.Background())
	var submitted atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if entry.Submit(ctx, 1) == nil {
					submitted.Add(1)
				}
			}
		})
	}
	all := laws(t)
	for end, i := time.Now().Add(storm), 0; time.Now().Before(end); i++ {
		require.NoError(t, p.SetPolicy(all[i%len(all)]))
		require.True(t, p.Snapshot().Balanced())
		time.Sleep(every)
	}
	cancel()
	wg.Wait()
	require.NoError(t, p.Drain(soon(t)))
	require.EqualValues(t, submitted.Load(), p.Snapshot().Accepted)
}

// With one instance a stage handles one command at a time, in order, whichever worker handles it.
func TestASwapReordersNothingWithinAStage(t *testing.T) {
	var last [3]int
	var swapped atomic.Int64
	entry, parts := line(3, func(stage, cmd int) error {
		if cmd <= last[stage] {
			swapped.Add(1)
		}
		last[stage] = cmd
		return nil
	}, stage.Capacity(32), stage.Workers(1, 1))
	p := run(t, parts...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 40_000 {
			_ = entry.Submit(context.Background(), i+1)
		}
	}()
	all := laws(t)
	for i := 0; ; i++ {
		require.NoError(t, p.SetPolicy(all[i%len(all)]))
		select {
		case <-done:
			require.NoError(t, p.Drain(soon(t)))
			require.Zero(t, swapped.Load())
			return
		case <-time.After(3 * time.Millisecond):
		}
	}
}

func TestASwapIsJournalledAndUndoesTheChangesOfTheOldPolicy(t *testing.T) {
	entry, parts := line(2, nil, stage.Workers(2, 4))
	p := run(t, append(parts, pipeline.Control(shared{controller.SharedPriority, 3, nil}))...)
	require.NoError(t, entry.Submit(soon(t), 1))
	require.Equal(t, "all", p.Snapshot().Stages[0].Pool)
	require.NoError(t, p.SetPolicy(policy.Fixed{}))
	eventually(t, "own workers", func() bool { return workers(p, 0) == 2 && workers(p, 1) == 2 })
	s := p.Snapshot()
	require.Equal(t, "s0", s.Stages[0].Pool)
	require.Equal(t, "fixed", s.Policy)
	require.Empty(t, p.Snapshot().Pools, "the pool is not needed any more")
	require.True(t, slices.ContainsFunc(p.Journal(), func(c controller.Change) bool {
		return c.What.String() == "policy" && c.Before == "shared shared priority" && c.After == "fixed"
	}))
}

func TestSetPolicyRefusesThePoliciesThatControlRefuses(t *testing.T) {
	_, parts := line(1, nil)
	p := start(t, parts...)
	require.ErrorContains(t, p.SetPolicy(nil), "nil")
	require.ErrorContains(t, p.SetPolicy(policy.ERLDA{Samples: -1}), "Samples")
	require.ErrorContains(t, p.SetPolicy(policy.ERLDA{}, policy.SEDA{}), "both turn the knob")
	require.ErrorContains(t, p.SetPolicy(policy.ERLDA{}, shared{}), "does not claim knobs")
	require.Equal(t, "fixed", p.Snapshot().Policy)
	require.NoError(t, p.Stop(soon(t)))
	require.ErrorIs(t, p.SetPolicy(policy.ERLDA{}), pipeline.ErrStopped)
}

func TestSetPolicyInATightLoopLeavesNoPoolBehind(t *testing.T) {
	_, parts := line(3, nil)
	p := run(t, parts...)
	for range 300 {
		require.NoError(t, p.SetPolicy(policy.SRPT{}))
		require.NoError(t, p.SetPolicy(policy.ERLDA{}))
	}
	var left []string
	eventually(t, "the pools that SRPT made are gone", func() bool {
		left = slices.DeleteFunc(actor.Processes(system(), "golda/test"), func(name string) bool { return !strings.Contains(name, "/(pools)/") })
		return len(left) == 0
	})
}

// onStart is a policy that calls a function when it is first asked.
type onStart func()

func (onStart) Name() string                 { return "on start" }
func (onStart) Check() error                 { return nil }
func (f onStart) New() controller.Controller { return f }

func (f onStart) Control(ev controller.Event, _ *controller.Snapshot, _ *controller.Decisions) {
	if ev.Kind == controller.EventStart {
		f()
	}
}

func TestAPolicyThatCallsItsOwnPipelineGetsAnErrorAtOnce(t *testing.T) {
	entry, parts := line(2, nil)
	p := run(t, parts...)
	other := run(t, stage.Func("other", echo[int]))
	for name, call := range map[string]func() error{
		"SetPolicy": func() error { return p.SetPolicy(policy.ERLDA{}) },
		"Pause":     func() error { return p.Pause(entry) },
		"Resume":    func() error { return p.Resume(entry) },
		"Add":       func() error { return p.Add(context.Background(), stage.Func("more", echo[int])) },
		"Remove":    func() error { return p.Remove(context.Background(), entry) },
	} {
		var err, ofOther error
		called, swapped := make(chan struct{}), make(chan error, 1)
		go func() {
			swapped <- p.SetPolicy(onStart(func() {
				defer close(called)
				err = call()
				ofOther = other.SetPolicy(policy.Fixed{})
			}))
		}()
		select {
		case <-called:
		case <-soon(t).Done():
			require.Fail(t, name+" in Control hangs")
		}
		require.ErrorIs(t, err, pipeline.ErrFromPolicy, name)
		require.NoError(t, <-swapped, name)
		require.NoError(t, ofOther, "another pipeline may be used")
	}
	require.NoError(t, p.SetPolicy(policy.Fixed{}))
	require.Len(t, p.Snapshot().Stages, 2)
}
