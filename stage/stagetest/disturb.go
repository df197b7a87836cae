package stagetest

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage/stagetest/internal/disturb"
)

// Disturbances are the actions of [Trial.Disturb]: for each, the time between
// two of its kind, on average. Zero means never.
//
// A kill stops an actor from outside, without its supervisor's knowledge, as a
// bug in the code of an actor might.
type Disturbances struct {
	KillWorker      time.Duration // kill a worker
	KillSupervisor  time.Duration // kill the supervisor of a stage
	KillControlLoop time.Duration // kill the control loop
	KillPool        time.Duration // kill the supervisor of a shared pool, or of a stage that was added
	KillFeed        time.Duration // kill an actor of a feed

	Swap         time.Duration // replace the policy by one of Golda's
	Rescale      time.Duration // replace the policy by one that sets numbers of workers, instances, batches and capacities at random
	Pause        time.Duration // pause a stage until the next action
	RetryLetters time.Duration // retry some letters of the quarantine
}

// Disturb does the actions again and again until the test is over. The seed
// determines which, and when; it is logged if the test fails. [Trial.Counts]
// returns how often each action was done.
//
// If a policy makes stages share workers, handlers that wait need
// stage.Blocking. It pauses stages that were passed to
// [Run], also in a pipeline.Subgraph.
func (t *Trial) Disturb(seed uint64, d Disturbances) {
	t.Meanwhile(seed, func(ctx context.Context, rnd *rand.Rand) {
		r := disturber{Trial: t, rnd: rnd}
		r.run(ctx, r.actions(d))
	})
}

// disturber is one call of Disturb.
type disturber struct {
	*Trial
	rnd    *rand.Rand
	paused pipeline.Part // the stage that the next action resumes
}

// action is an action, and how often in a second it is done. do reports whether
// there was anything to do.
type action struct {
	name string
	rate float64
	do   func() bool
}

// actions returns the actions that are done at all.
func (r *disturber) actions(d Disturbances) (all []action) {
	add := func(name string, every time.Duration, do func() bool) {
		if every > 0 {
			all = append(all, action{name, 1 / every.Seconds(), do})
		}
	}
	kill := func(kind disturb.Actor) func() bool {
		return func() bool { return disturb.Kill(r.Name(), kind, r.rnd) }
	}
	add("kill worker", d.KillWorker, kill(disturb.Worker))
	add("kill stage supervisor", d.KillSupervisor, kill(disturb.Supervisor))
	add("kill control loop", d.KillControlLoop, kill(disturb.ControlLoop))
	add("kill pool", d.KillPool, kill(disturb.Pool))
	add("kill feed", d.KillFeed, kill(disturb.Feed))
	add("swap", d.Swap, r.swap)
	add("rescale", d.Rescale, func() bool { return r.SetPolicy(disturb.Shaken{Seed: r.rnd.Uint64()}) == nil })
	add("pause", d.Pause, r.pauseOne)
	add("retry letters", d.RetryLetters, r.retryLetters)
	return all
}

func (r *disturber) run(ctx context.Context, actions []action) {
	var rate float64
	for _, a := range actions {
		rate += a.rate
	}
	if rate == 0 {
		return
	}
	defer r.resume()
	for {
		pause := time.NewTimer(time.Duration(r.rnd.Float64() * 2 / rate * float64(time.Second)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		r.resume()
		if a := r.draw(actions, rate); a.do() {
			r.Count(a.name)
		}
	}
}

// draw returns one of the actions, each as often as its rate says.
func (r *disturber) draw(actions []action, rate float64) action {
	at := r.rnd.Float64() * rate
	for _, a := range actions {
		if at -= a.rate; at < 0 {
			return a
		}
	}
	return actions[len(actions)-1]
}

func (r *disturber) swap() bool {
	names := policy.Names()
	p, err := policy.ByName(names[r.rnd.IntN(len(names))])
	return err == nil && !drops(p) && r.SetPolicy(p) == nil
}

// drops reports whether a policy may drop or refuse commands, as none of the
// other disturbances does.
func drops(p controller.Policy) bool {
	claimer, ok := p.(controller.Claimer)
	return ok && slices.ContainsFunc(claimer.Claims(), func(k controller.Knob) bool {
		return k == controller.KnobSojourn || k == controller.KnobRate || k == controller.KnobShed
	})
}

func (r *disturber) pauseOne() bool {
	if len(r.stages) == 0 {
		return false
	}
	r.paused = r.stages[r.rnd.IntN(len(r.stages))]
	return r.Pause(r.paused) == nil
}

func (r *disturber) resume() {
	if r.paused != nil {
		_ = r.Resume(r.paused) // it fails if the pipeline has ended
		r.paused = nil
	}
}

func (r *disturber) retryLetters() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	n, _ := r.Quarantine().RetryAll(ctx, letters.Filter{Limit: 5})
	return n > 0
}
