package stagetest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
)

// Trouble is what a [Trial.Storm] does: a [Victim], which is killed, or one of the actions that can be done to any
// pipeline: [KillWorker], [KillKeeper], [KillClerk], [KillPools], [KillPool], [Swap], [Rescale], [Pause], [Resume] and
// [TryLetters].
type Trouble interface {
	deed() (Deed, bool)
}

func (v Victim) deed() (Deed, bool) { return KillWorker + Deed(v), v < victims }

func (d Deed) deed() (Deed, bool) { return d, d <= Resume || d == TryLetters }

// Storm does one of the troubles again and again until the test is over, on average once in the given time. The seed
// determines which, and when; it is logged if the test fails.
//
// Swap takes one of Golda's policies. Rescale takes a policy that sets numbers of workers, instances, batches and
// capacities at random. Both replace the pipeline's own policy. If a policy makes stages share workers, handlers that
// wait need [stage.Blocking]. Pause pauses a stage that was passed to [Start], by itself or in a pipeline.Join, until
// the storm does something else.
func (t *Trial) Storm(seed uint64, every time.Duration, troubles ...Trouble) {
	t.tb.Helper()
	deeds := make([]Deed, 0, len(troubles))
	for _, x := range troubles {
		d, ok := x.deed()
		if !ok {
			t.tb.Fatalf("stagetest: Storm: a trial cannot do %q", x)
		}
		deeds = append(deeds, d)
	}
	if len(deeds) == 0 || every <= 0 {
		return
	}
	t.mu.Lock()
	t.seeds = append(t.seeds, seed)
	t.mu.Unlock()
	t.storms.Go(func() { t.runStorm(seed, every, deeds) })
}

func (t *Trial) runStorm(seed uint64, every time.Duration, deeds []Deed) {
	rnd := rand.New(rand.NewPCG(seed, 1))
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
		case <-t.stormsEnd.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		resume()
		deed := deeds[rnd.IntN(len(deeds))]
		if deed == Pause && len(t.stages) > 0 {
			paused = t.stages[rnd.IntN(len(t.stages))]
		}
		if t.doDeed(deed, paused, rnd) {
			t.mu.Lock()
			t.done[deed.String()]++
			t.mu.Unlock()
		}
	}
}

// doDeed does one action, and reports whether there was anything to do.
func (t *Trial) doDeed(d Deed, to pipeline.Part, rnd *rand.Rand) bool {
	switch d {
	case Pause:
		return to != nil && t.Pause(to) == nil
	case KillWorker, KillKeeper, KillClerk, KillPools, KillPool:
		return t.kill(Victim(d-KillWorker), rnd)
	case Swap:
		names := policy.Names()
		pol, err := policy.ByName(names[rnd.IntN(len(names))])
		return err == nil && t.Use(pol) == nil
	case Rescale:
		return t.Use(shaken{seed: rnd.Uint64()}) == nil
	case TryLetters:
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		n, _ := t.Quarantine().RetryAll(ctx, pipeline.LetterFilter{Limit: 5})
		return n > 0
	default:
		return d == Resume // it has been done already
	}
}

// Deeds returns how often storms did each action, by the actions' names.
func (t *Trial) Deeds() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return sum(nil, t.done)
}
