package stagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// storm does to the pipeline what the plan says, one deed after the other, while others
// submit. In the end nothing is paused, or closed, any more.
func (r *run) storm() {
	rnd := rand.New(rand.NewPCG(r.plan.Seed, 77))
	for _, blow := range r.plan.Storm {
		r.await(blow.At)
		if r.do(blow, rnd) {
			r.deeds[blow.Deed.String()]++
		}
	}
	r.await(100)
	r.reopen()
	r.resume()
}

// await waits until so many of a hundred commands have been handed in, or until nobody
// seems to be able to.
func (r *run) await(percent int) {
	for before, still := r.ids.Load(), 0; still < 20; still++ {
		now := r.ids.Load()
		if now*100 >= uint64(r.plan.Commands*percent) {
			return
		}
		if now != before {
			before, still = now, 0
		}
		time.Sleep(500 * time.Microsecond)
	}
}

// do does one deed, and reports whether there was anything to do.
func (r *run) do(b Blow, rnd *rand.Rand) bool {
	switch b.Deed {
	case KillWorker:
		return kill(system(), r.prefix(), Worker, rnd)
	case KillKeeper:
		return kill(system(), r.prefix(), Keeper, rnd)
	case KillClerk:
		return kill(system(), r.prefix(), Clerk, rnd)
	case KillPools:
		return kill(system(), r.prefix(), Pools, rnd)
	case KillPool:
		return kill(system(), r.prefix(), PoolsOwn, rnd)
	case Swap:
		return r.swap(b.Policy, b.Group)
	case Rescale:
		return r.carriedOut(r.pipe.Use(shaken{r.plan.Seed, r.plan.Ordered}))
	case Pause:
		return r.carriedOut(r.pipe.Pause(r.sites[b.Stage].stage))
	case Resume:
		r.resume()
		return true
	case AddStage:
		return r.add(rnd)
	case RemoveStage:
		return r.remove(rnd)
	case TryLetters:
		return r.tryLetters()
	case Drain:
		go func() { _ = r.pipe.Drain(context.Background()) }()
		return true
	case Upgrade, Canary:
		return r.upgrade(r.sites[b.Stage], rnd, b.Deed == Canary)
	case EndTrial:
		return r.endTrial(rnd)
	case DrainStage:
		return r.drainStage(r.sites[b.Stage])
	case Reopen:
		return r.reopen()
	default:
		return false
	}
}

// carriedOut reports whether an order was; one may be refused if the pipeline has ended.
func (r *run) carriedOut(err error) bool {
	if err != nil && !errors.Is(err, pipeline.ErrStopped) && !errors.Is(err, pipeline.ErrNotRunning) {
		r.breachf(Progress, "an order was not carried out: %v", err)
	}
	return err == nil
}

func (r *run) resume() {
	for _, s := range r.sites {
		r.carriedOut(r.pipe.Resume(s.stage))
	}
}

func (r *run) swap(name string, group int) bool {
	law, err := r.plan.law(name)
	if err != nil {
		r.breachf(Checks, "%v", err)
		return false
	}
	if group > 0 && r.plan.Graph.inhabited(group) {
		return r.carriedOut(r.pipe.UseFor(groupName(group), law))
	}
	return r.carriedOut(r.pipe.Use(law))
}

// add takes a further stage in, which forwards to the first, and has it do something.
func (r *run) add(rnd *rand.Rand) bool {
	first := r.sites[r.plan.Graph.Entries[0]].stage
	guest := stage.Func(fmt.Sprintf("guest%d", len(r.guests)+int(r.ids.Load())), func(_ context.Context, cmd Command) behaviour.Outcome {
		return behaviour.Forward(first, cmd)
	}, stage.Workers(1, 2))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := r.pipe.Add(ctx, guest); err != nil {
		return ctx.Err() == nil && r.carriedOut(err)
	}
	r.guests = append(r.guests, guest)
	// It does not wait for ever: if a stage is paused, only this storm resumes it.
	ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	for range 3 {
		if a := r.hand(ctx, rnd, guest, Command{ID: r.ids.Add(1), Hops: uint8(r.plan.Graph.Hops)}); a != nil {
			r.waiting = append(r.waiting, a)
		}
	}
	return true
}

// remove takes the oldest guest out again, or one that has just come.
func (r *run) remove(rnd *rand.Rand) bool {
	if len(r.guests) == 0 && (r.plan.Ordered || !r.add(rnd) || len(r.guests) == 0) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.pipe.Remove(ctx, r.guests[0]); err != nil { // it may be waiting for one that is paused
		return ctx.Err() == nil && r.carriedOut(err)
	}
	r.guests, r.changed = r.guests[1:], true
	return true
}

// tryLetters tries the letters of commands that crashed again, each as a new command.
func (r *run) tryLetters() bool {
	store := r.pipe.Quarantine()
	done := false
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	for _, l := range store.List(pipeline.LetterFilter{Limit: 5}) {
		cmd, ok := l.Command.(Command)
		if !ok {
			continue
		}
		cmd.ID, cmd.Part = r.ids.Add(1), 0
		if err := store.RetryAs(ctx, l.ID, cmd); err == nil {
			r.accepted.Add(1)
			done = true
		}
	}
	return done
}

// shaken is a policy that turns what may be turned, by chance.
type shaken struct {
	seed    uint64
	ordered bool
}

// Name is the policy's name.
func (shaken) Name() string { return "shaken" }

// Check finds nothing wrong.
func (shaken) Check() error { return nil }

// New returns a controller with its own chance.
func (s shaken) New() controller.Controller {
	return &shaker{rand.New(rand.NewPCG(s.seed, 99)), s.ordered}
}

type shaker struct {
	rnd     *rand.Rand
	ordered bool
}

// Control turns the knobs of all stages.
func (s *shaker) Control(ev controller.Event, snap *controller.Snapshot, d *controller.Decisions) {
	d.Every(controller.MinInterval)
	if ev.Kind == controller.EventStop {
		return
	}
	for i := range snap.Stages {
		id := snap.Stages[i].ID
		if s.ordered {
			d.Batch(id, 1+s.rnd.IntN(64), 0, "shaken")
			continue
		}
		d.Workers(id, 1+s.rnd.IntN(8), "shaken")
		switch s.rnd.IntN(4) {
		case 0:
			d.Instances(id, 1+s.rnd.IntN(8), "shaken")
		case 1:
			d.Batch(id, 1+s.rnd.IntN(64), time.Duration(s.rnd.IntN(2))*time.Millisecond, "shaken")
		case 2:
			d.Capacity(id, 1+s.rnd.IntN(64), "shaken")
		}
	}
}
