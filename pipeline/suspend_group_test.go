package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// In a group, two stages whose handlers suspend and two whose handlers do not share one or more workers, in any visit order.
// Commands crash, end their goroutines and exceed their time limits while others are suspended; the stages are paused, another policy takes
// over, and at the end the pipeline drains or is stopped. Each command ends once, as its script says.
func TestAGroupOfStagesThatSuspendAndOthersEndsEachCommandAsItSays(t *testing.T) {
	for _, n := range []int{1, 3} {
		for name := range ways(n) {
			t.Run(fmt.Sprintf("%s with %d", name, n), func(t *testing.T) {
				for seed := range uint64(fewer(8)) {
					bubbled(t, func(t *testing.T) { (&saga{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), workers: n}).tell(name) })
				}
			})
		}
	}
}

// saga is one run of a group.
type saga struct {
	actors

	t       *testing.T
	rnd     *rand.Rand
	workers int
	plain   *stage.Stage[*script] // forwards scripts without playing them
	pipe    *pipeline.Pipeline
	scripts []*script
	tickets []*stage.Ticket
}

func (s *saga) tell(way string) {
	s.sink = stage.Func("sink", echo[int])
	s.help = stage.Coroutine("help", func(c coroutine.Context, n int) behaviour.Outcome {
		if err := coroutine.Sleep(c, time.Duration(n)*time.Second); err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(n + 1)
	})
	s.play = stage.Coroutine("play", s.perform, stage.Instances(10), stage.Timeout(time.Hour), stage.Grace(time.Second),
		stage.Restart(stage.RestartPolicy{Limit: 1 << 30, Max: time.Millisecond}))
	s.plain = stage.Func("plain", func(_ context.Context, cmd *script) behaviour.Outcome {
		time.Sleep(time.Millisecond)
		return behaviour.Forward(s.play, cmd)
	})
	s.pipe = bubble(s.t, pipeline.Group("g", s.workers, s.workers, s.plain, s.play, s.help, s.sink), pipeline.Control(ways(s.workers)[way]),
		pipeline.Intensity(1000, time.Second))
	for range 40 {
		s.meanwhile()
		s.submit()
	}
	if s.rnd.IntN(2) == 0 {
		s.drain()
	} else {
		s.stopHard()
	}
	s.account()
}

// submit submits a script, through the plain stage or directly.
func (s *saga) submit() {
	steps := []string{"sleep", "yield", "await", "call", "ask", "emit"}
	cmd := &script{end: []string{"ok", "forward", "error", "panic", "goexit", "late"}[s.rnd.IntN(6)]}
	for range s.rnd.IntN(5) {
		cmd.steps = append(cmd.steps, steps[s.rnd.IntN(len(steps))])
	}
	ticket, err := []*stage.Stage[*script]{s.plain, s.play}[s.rnd.IntN(2)].Ask(s.t.Context(), cmd)
	require.NoError(s.t, err)
	s.scripts, s.tickets = append(s.scripts, cmd), append(s.tickets, ticket)
}

// meanwhile changes the pipeline, or lets time pass.
func (s *saga) meanwhile() {
	switch s.rnd.IntN(6) {
	case 0:
		all := suspendingWays(s.workers)
		require.NoError(s.t, s.pipe.SetPolicy(all[s.rnd.IntN(len(all))]))
	case 1:
		require.NoError(s.t, s.pipe.Pause(s.play))
		time.Sleep(time.Second)
		require.NoError(s.t, s.pipe.Resume(s.play))
	case 2:
		time.Sleep(time.Duration(s.rnd.IntN(3000)) * time.Millisecond)
	case 3:
		synctest.Wait()
	}
	snap := s.pipe.Snapshot()
	require.True(s.t, snap.Balanced(), snap.Law())
}

func (s *saga) drain() {
	require.NoError(s.t, s.pipe.Drain(s.t.Context()))
	for i, cmd := range s.scripts {
		got, err := s.tickets[i].Wait(soon(s.t))
		switch cmd.end {
		case "ok", "forward":
			require.NoError(s.t, err)
			require.Equal(s.t, len(cmd.steps), got)
		case "error":
			require.ErrorIs(s.t, err, errNo)
		case "late":
			require.ErrorIs(s.t, err, stage.ErrTimeout)
		default:
			require.True(s.t, stage.Crashed(err), err)
		}
	}
	require.NoError(s.t, s.pipe.Stop(s.t.Context()))
}

func (s *saga) stopHard() {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Duration(s.rnd.IntN(3000))*time.Millisecond)
	defer cancel()
	_ = s.pipe.Stop(ctx)
	for i, ticket := range s.tickets {
		_, err := ticket.Wait(soon(s.t))
		require.NotErrorIs(s.t, err, context.DeadlineExceeded, "%+v was never told", s.scripts[i])
	}
}

func (s *saga) account() {
	synctest.Wait()
	snap := s.pipe.Snapshot()
	require.True(s.t, snap.Balanced(), snap.Law())
	require.Zero(s.t, snap.InFlight)
	for _, st := range snap.Stages {
		require.Zero(s.t, st.Queue.Suspended, st.Name)
	}
}
