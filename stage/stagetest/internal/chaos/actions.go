package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/route"
	"github.com/golda-dev/golda/stage/stagetest/internal/disturb"
)

// disturb does the plan's actions to the pipeline, one after the other, while
// submitters submit. At the end it resumes all stages and reopens the drained
// ones.
func (r *run) disturb() {
	rnd := rand.New(rand.NewPCG(r.plan.Seed, 77))
	for _, d := range r.plan.Disturbances {
		r.await(d.At)
		if r.do(d, rnd) {
			r.actions[d.Action.String()]++
		}
	}
	r.await(100)
	r.reopen()
	r.resume()
}

// await waits until that percentage of the commands has been submitted, or
// until no submitter makes progress.
func (r *run) await(percent int) {
	all := r.plan.Commands
	for _, f := range r.plan.Feeds {
		all += f.length()
	}
	for before, still := r.ids.Load(), 0; still < 20; still++ {
		now := r.ids.Load()
		if now*100 >= uint64(all*percent) {
			return
		}
		if now != before {
			before, still = now, 0
		}
		time.Sleep(500 * time.Microsecond)
	}
}

// do does one action, and reports whether there was anything to do.
func (r *run) do(d Disturbance, rnd *rand.Rand) bool {
	switch d.Action {
	case KillWorker, KillSupervisor, KillControlLoop, KillPool, KillFeed:
		return disturb.Kill(r.name, disturb.Actor(d.Action), rnd)
	case Swap:
		return r.swap(d.Policy, d.Group)
	case Rescale:
		return r.carriedOut(r.pipe.SetPolicy(disturb.Shaken{Seed: r.plan.Seed, Ordered: r.plan.Ordered}))
	case Pause:
		return r.carriedOut(r.pipe.Pause(r.sites[d.Stage].stage))
	case Resume:
		r.resume()
		return true
	case AddStage:
		return r.add(rnd)
	case RemoveStage:
		return r.remove(rnd)
	case RetryLetters:
		return r.tryLetters()
	case Drain:
		return r.drain()
	case Upgrade:
		return r.upgrade(r.sites[d.Stage])
	case DrainStage:
		return r.drain(r.sites[d.Stage].stage)
	case Reopen:
		return r.reopen()
	case KillProcess:
		return r.processes.kill(rnd)
	case Rewire:
		return r.rewire(r.sites[d.Stage], rnd)
	default:
		return false
	}
}

// carriedOut reports whether a control operation succeeded; it may be refused
// if the pipeline has ended.
func (r *run) carriedOut(err error) bool {
	if err != nil && !errors.Is(err, pipeline.ErrStopped) && !errors.Is(err, pipeline.ErrNotRunning) {
		r.breachf(Progress, "a control operation was not carried out: %v", err)
	}
	return err == nil
}

func (r *run) resume() {
	for _, s := range r.sites {
		r.carriedOut(r.pipe.Resume(s.stage))
	}
}

func (r *run) swap(name string, group int) bool {
	pol, err := r.plan.policyNamed(name)
	if err != nil {
		r.breachf(Checks, "%v", err)
		return false
	}
	if group > 0 && r.plan.Graph.hasStages(group) {
		return r.carriedOut(r.pipe.SetGroupPolicy(groupName(group), pol))
	}
	return r.carriedOut(r.pipe.SetPolicy(pol))
}

// add adds a further stage, which forwards to the first entry, and submits to
// it.
func (r *run) add(rnd *rand.Rand) bool {
	first := r.sites[r.plan.Graph.Entries[0]]
	extra := stage.Func(fmt.Sprintf("added%d", len(r.added)+int(r.ids.Load())), func(_ context.Context, cmd command) behaviour.Outcome {
		first.expect(cmd)
		return behaviour.Forward(first.stage, cmd)
	}, stage.Workers(1, 2))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	parts := []pipeline.Part{extra}
	if rnd.IntN(2) == 0 {
		parts = append(parts, r.feedOf(extra))
	}
	if err := r.pipe.Add(ctx, parts...); err != nil {
		return ctx.Err() == nil && r.carriedOut(err)
	}
	r.added = append(r.added, extra)
	// The context ends soon: if a stage is paused, only this goroutine resumes
	// it.
	ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	for range 3 {
		if a := r.submitOne(ctx, rnd, extra, r.newCommand(r.plan.Graph.Hops)); a != nil {
			r.waiting = append(r.waiting, a)
		}
	}
	return true
}

// feedOf returns a feed of a few commands for a stage that is added.
func (r *run) feedOf(extra *stage.Stage[command]) pipeline.Part {
	to := behaviour.Target[command](extra)
	return pipeline.Feed("feed of "+extra.Name(), to, func(ctx context.Context, submit func(command) error) error {
		for source.Position(ctx) < 3 {
			if err := submit(r.newCommand(r.plan.Graph.Hops)); err != nil {
				return err
			}
			r.accepted.Add(1)
		}
		return nil
	})
}

// remove removes the oldest added stage, or adds one first if there is none.
func (r *run) remove(rnd *rand.Rand) bool {
	if len(r.added) == 0 && (r.plan.Ordered || !r.add(rnd) || len(r.added) == 0) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.pipe.Remove(ctx, r.added[0]); err != nil { // the stage may wait for one that is paused
		return ctx.Err() == nil && r.carriedOut(err)
	}
	r.added, r.changed = r.added[1:], true
	return true
}

// rewire has a flow with a route lead to some of its targets. A version of an
// upgrade sends to the old ones, and two wires to one stage keep no order.
func (r *run) rewire(s *site, rnd *rand.Rand) bool {
	other := func(d Disturbance) bool {
		return d.Action == Upgrade && r.sites[d.Stage] == s
	}
	if s.pick == nil || r.plan.Ordered || slices.ContainsFunc(r.plan.Disturbances, other) {
		return false
	}
	to := rnd.Perm(len(s.Next))[:1+rnd.IntN(len(s.Next))]
	for i, n := range to {
		to[i] = s.Next[n]
	}
	by := route.RoundRobin[command]()
	if rnd.IntN(2) == 0 {
		by = route.ByKey(keyOf)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := r.pipe.Rewire(ctx, s.flows.Route(s.picked(by, to), s.targets(to)...))
	switch {
	case err == nil, ctx.Err() != nil: // what the old wires have sent may wait for a stage that is paused
		return true
	case errors.Is(err, stage.ErrDraining), strings.Contains(err.Error(), "drained"):
		return false
	default:
		return r.carriedOut(err)
	}
}

// tryLetters retries commands whose dead letters are in quarantine, each as a
// new command.
func (r *run) tryLetters() bool {
	store := r.pipe.Quarantine()
	done := false
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	for _, l := range store.List(letters.Filter{Limit: 5}) {
		cmd, ok := l.Command.(command)
		if !ok {
			continue
		}
		cmd.ID, cmd.Part = r.ids.Add(1), 0
		cmd = cmd.sealed()
		to := r.siteOf(l.Stage)
		if to != nil {
			to.expect(cmd)
		}
		if err := store.RetryAs(ctx, l.ID, cmd); err != nil && to != nil {
			to.expectNot(cmd)
		} else if err == nil {
			r.accepted.Add(1)
			done = true
		}
	}
	return done
}
