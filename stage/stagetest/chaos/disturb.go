package chaos

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
)

// Disturb does one of the actions to a trial again and again until the test is over, on average once in the given time.
// The seed determines which, and when; it is logged if the test fails. [stagetest.Trial.Counts] returns how often each
// action was done.
//
// A trial can do [KillWorker], [KillSupervisor], [KillControlLoop], [KillPool], [KillFeed], [Swap], [Rescale], [Pause],
// [Resume] and [RetryLetters]. Swap takes one of Golda's policies. Rescale takes a policy that sets numbers of workers,
// instances, batches and capacities at random. Both replace the pipeline's own policy. If a policy makes stages share
// workers, handlers that wait need stage.Blocking. Pause pauses a stage that was passed to [stagetest.Run], by itself
// or in a pipeline.Subgraph, until the next action of the same call.
func Disturb(tb testing.TB, t *stagetest.Trial, seed uint64, every time.Duration, actions ...Action) {
	tb.Helper()
	for _, a := range actions {
		if a > Resume && a != RetryLetters {
			tb.Fatalf("chaos: Disturb: a trial cannot do %q", a)
		}
	}
	if len(actions) == 0 || every <= 0 {
		return
	}
	t.Meanwhile(seed, func(ctx context.Context, rnd *rand.Rand) { disturb(ctx, t, rnd, every, actions) })
}

func disturb(ctx context.Context, t *stagetest.Trial, rnd *rand.Rand, every time.Duration, actions []Action) {
	stages := t.Stages()
	var paused pipeline.Part
	resume := func() {
		if paused != nil {
			_ = t.Resume(paused) // it fails if the pipeline has ended
			paused = nil
		}
	}
	defer resume()
	for {
		pause := time.NewTimer(time.Duration(rnd.Float64() * 2 * float64(every)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		resume()
		a := actions[rnd.IntN(len(actions))]
		if a == Pause && len(stages) > 0 {
			paused = stages[rnd.IntN(len(stages))]
		}
		if act(t, a, paused, rnd) {
			t.Count(a.String())
		}
	}
}

// act does one action, and reports whether there was anything to do.
func act(t *stagetest.Trial, a Action, to pipeline.Part, rnd *rand.Rand) bool {
	switch a {
	case Pause:
		return to != nil && t.Pause(to) == nil
	case KillWorker, KillSupervisor, KillControlLoop, KillPool, KillFeed:
		return kill(oracle.System(), prefix(t.Name()), a, rnd)
	case Swap:
		names := policy.Names()
		pol, err := policy.ByName(names[rnd.IntN(len(names))])
		return err == nil && t.SetPolicy(pol) == nil
	case Rescale:
		return t.SetPolicy(shaken{seed: rnd.Uint64()}) == nil
	case RetryLetters:
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		n, _ := t.Quarantine().RetryAll(ctx, pipeline.LetterFilter{Limit: 5})
		return n > 0
	default:
		return a == Resume // it has been done already
	}
}

// Kill stops a random actor of the pipeline from outside: one of the kind that the action kills. It reports false if
// there is none now, or if the action is not a kill. [stagetest.Trial.Counts] counts it.
func Kill(t *stagetest.Trial, a Action) bool {
	if a > KillFeed || !kill(oracle.System(), prefix(t.Name()), a, rand.New(rand.NewPCG(rand.Uint64(), 0))) {
		return false
	}
	t.Count(a.String())
	return true
}
