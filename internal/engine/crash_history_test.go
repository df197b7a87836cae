package engine

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/worker"
)

func TestTheHistoryKeepsTheLastCrashesAndTheSumOfThePauses(t *testing.T) {
	in := inbox.New(inbox.Config{Name: "s"})
	(&inbox.Pipeline{Base: time.Now()}).Attach(in)
	for n, last := range map[int]int{1: 1, keptCrashes: keptCrashes, keptCrashes + 1: keptCrashes, 100: keptCrashes} {
		h := &crashHistory{}
		var crashes []error
		for i := range n {
			crashes = append(crashes, fmt.Errorf("crash %d", i))
			h.add(crashes[i])
			h.addPause(time.Second)
		}
		e := h.broken(in, inbox.Verdict{Streak: n})
		require.Equal(t, crashes[n-last:], e.Last)
		require.Equal(t, n, e.Crashes)
		require.Equal(t, n, e.Pauses)
		require.Equal(t, time.Duration(n)*time.Second, e.Paused)
	}
}

func TestAHistoryEndsWithItsStreak(t *testing.T) {
	now := time.Duration(0)
	host := &inbox.Pipeline{Clock: func() int64 { return int64(now) }}
	crash := func(s *worker.Stage) { s.Inbox.Workers().CrashIdle(new(inbox.Member)) }
	stages := make([]*worker.Stage, 2)
	for i := range stages {
		stages[i] = &worker.Stage{Inbox: inbox.New(inbox.Config{Name: strconv.Itoa(i), StreakEnds: time.Minute})}
		host.Attach(stages[i].Inbox)
		crash(stages[i])
	}
	ps := &poolSupervisor{}
	h, other := ps.crashHistory(stages[0]), ps.crashHistory(stages[1])
	require.NotSame(t, h, other, "each stage has its own")
	h.add(errors.New("crash"))

	now += time.Minute
	crash(stages[0])
	require.Same(t, h, ps.crashHistory(stages[0]), "the streak goes on")

	now += time.Minute + 1
	crash(stages[0])
	fresh := ps.crashHistory(stages[0])
	require.NotSame(t, h, fresh, "a crash long after the last begins a streak")
	require.Empty(t, fresh.last)
}
