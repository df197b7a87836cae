package pipeline_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// script is what a handler does with one command: steps, and an outcome.
type script struct {
	steps []string
	end   string
	hang  *atomic.Bool // a handler that hangs waits until this is true
}

// emits returns how many commands a script emits in one attempt.
func (s *script) emits() (n uint64) {
	for _, step := range s.steps {
		if step == "emit" {
			n++
		}
	}
	return n
}

// actors are stages that play scripts, and the stage that gets what they forward and emit.
type actors struct {
	play *stage.Stage[*script]
	help *stage.Stage[int]
	sink *stage.Stage[int]
}

func newActors(opts ...stage.Option) *actors {
	a := &actors{}
	a.sink = stage.Func("sink", echo[int], stage.Capacity(8))
	a.help = stage.Coroutine("help", func(c coroutine.Context, n int) behaviour.Outcome {
		if n%2 == 0 {
			if err := coroutine.Sleep(c, 50*time.Microsecond); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(n + 1)
	}, stage.Capacity(4), stage.Instances(16))
	a.play = stage.Coroutine("play", a.perform, opts...)
	return a
}

func (a *actors) parts() pipeline.Part { return pipeline.Subgraph(a.play, a.help, a.sink) }

func (a *actors) perform(c coroutine.Context, s *script) behaviour.Outcome {
	for i, step := range s.steps {
		if err := a.step(c, step, i); err != nil {
			return behaviour.Error(err)
		}
	}
	switch s.end {
	case "ok":
		return behaviour.OK(len(s.steps))
	case "forward":
		return behaviour.Forward(a.sink, len(s.steps))
	case "panic":
		panic("as the script says")
	case "goexit":
		runtime.Goexit()
	case "late":
		return behaviour.Error(coroutine.Sleep(c, 24*time.Hour))
	case "hang":
		for !s.hang.Load() {
			time.Sleep(time.Millisecond)
		}
	}
	return behaviour.Error(errNo)
}

func (a *actors) step(c coroutine.Context, step string, i int) error {
	switch step {
	case "sleep":
		return coroutine.Sleep(c, time.Duration(i*20)*time.Microsecond)
	case "yield":
		return coroutine.Yield(c)
	case "await":
		_, err := coroutine.Await(c, func(ctx context.Context) (int, error) { return i, ctx.Err() })
		return err
	case "call":
		got, err := stage.Call[int](c, a.help, i)
		if err == nil && got != i+1 {
			panic(fmt.Sprintf("called with %d, and got %d", i, got))
		}
		return err
	case "ask":
		ticket, err := a.help.Ask(c, i)
		if err == nil {
			_, err = ticket.Wait(c)
		}
		return err
	default:
		return behaviour.Emit(c, a.sink, i)
	}
}

// aScript draws a script.
func aScript(ends ...string) *rapid.Generator[*script] {
	return rapid.Custom(func(t *rapid.T) *script {
		return &script{
			steps: rapid.SliceOfN(rapid.SampledFrom([]string{"sleep", "yield", "await", "call", "ask", "emit"}), 0, 6).Draw(t, "steps"),
			end:   rapid.SampledFrom(ends).Draw(t, "end"),
		}
	})
}

// The accounts are compared with a model: each command ends as its script says, whatever happens to the workers.
func TestEachScriptOfSuspensionsEndsAsWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(rt, "workers")
		a := newActors(stage.Workers(n, n), stage.Instances(rapid.IntRange(1, 40).Draw(rt, "instances")),
			stage.Capacity(rapid.IntRange(1, 20).Draw(rt, "capacity")), stage.Restart(stage.RestartPolicy{Limit: 1 << 30, Max: time.Millisecond}))
		p := start(t, a.parts())
		scripts := rapid.SliceOfN(aScript("ok", "ok", "forward", "error", "panic", "goexit"), 1, 60).Draw(rt, "scripts")
		laws := suspendingWays(n)
		var tickets []*stage.Ticket
		for _, s := range scripts {
			switch rapid.IntRange(0, 12).Draw(rt, "meanwhile") {
			case 0:
				require.NoError(t, p.SetPolicy(laws[rapid.IntRange(0, len(laws)-1).Draw(rt, "law")]))
			case 1:
				require.NoError(t, p.Pause(a.play))
				require.NoError(t, p.Resume(a.play))
			case 2:
				_, err := a.play.Upgrade(t.Context(), func() behaviour.Behaviour[*script] { return behaviour.Coroutine[*script](a.perform) })
				require.NoError(t, err)
			}
			ticket, err := a.play.Ask(soon(t), s)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
			require.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
		}
		var ok, failed, forwarded, dead, emitted uint64
		for i, s := range scripts {
			got, err := tickets[i].Wait(soon(t))
			switch s.end {
			case "ok":
				require.NoError(t, err)
				require.Equal(t, len(s.steps), got)
				ok++
			case "forward":
				require.NoError(t, err)
				require.Equal(t, len(s.steps), got)
				forwarded++
			case "error":
				require.ErrorIs(t, err, errNo)
				failed++
				continue
			default:
				require.True(t, stage.Crashed(err), err)
				dead++
				continue
			}
			emitted += s.emits()
		}
		require.NoError(t, p.Stop(soon(t)))
		atRest(t, p)
		st := p.Snapshot().Stages
		require.Equal(t, []uint64{ok, failed, forwarded, dead, emitted, dead},
			[]uint64{st[0].Counts.OK, st[0].Counts.Errors, st[0].Counts.Forwarded, st[0].Counts.DeadLettered, st[0].Counts.Emitted, st[0].Counts.Crashes})
		require.Equal(t, forwarded+emitted, st[2].Counts.OK)
		require.Zero(t, st[0].Queue.Suspended)
	})
}

// suspendingWays are ways to run the stages: with their own workers, and with shared ones.
func suspendingWays(n int) []controller.Policy {
	all := []controller.Policy{policy.Fixed{}}
	for _, name := range []string{"fifo", "fifo by one", "priority", "exhaustive", "gated", "bounded"} {
		all = append(all, ways(n)[name])
	}
	return all
}

// Whenever and however the pipeline is stopped, every command has ended and no coroutine is left.
func TestAHardStopEndsSuspendedCommands(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(rt, "workers")
		a := newActors(stage.Workers(n, n), stage.Instances(rapid.IntRange(1, 40).Draw(rt, "instances")),
			stage.Capacity(100), stage.Timeout(3*time.Millisecond), stage.Grace(2*time.Millisecond),
			stage.Restart(stage.RestartPolicy{Limit: 1 << 30, Max: time.Millisecond}))
		laws := suspendingWays(n)
		p := start(t, a.parts(), pipeline.Control(laws[rapid.IntRange(0, len(laws)-1).Draw(rt, "law")]))
		scripts := rapid.SliceOfN(aScript("ok", "forward", "error", "panic", "goexit", "hang"), 1, 60).Draw(rt, "scripts")
		hang := new(atomic.Bool)
		var tickets []*stage.Ticket
		for _, s := range scripts {
			s.hang = hang
			ticket, err := a.play.Ask(soon(t), s)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rapid.IntRange(0, 3000).Draw(rt, "after"))*time.Microsecond)
		defer cancel()
		_ = p.Stop(ctx)
		hang.Store(true)
		for i, ticket := range tickets {
			_, err := ticket.Wait(soon(t))
			require.NotErrorIs(t, err, context.DeadlineExceeded, "%d: %+v was never told", i, scripts[i])
		}
		eventually(t, "the law", func() bool {
			s := p.Snapshot()
			return s.Balanced() && s.InFlight == 0 && s.Stages[0].Workers.Abandoned == 0
		})
	})
}
