package stagetest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
)

// Trouble is what a [Trial.Storm] does: a [Victim], which is killed, or one of the deeds that
// can be done to any pipeline: [KillWorker], [KillKeeper], [KillClerk], [KillPools], [KillPool],
// [Swap], [Rescale], [Pause], [Resume] and [TryLetters].
type Trouble interface {
	deed() (Deed, bool)
}

func (v Victim) deed() (Deed, bool) { return KillWorker + Deed(v), v < victims }

func (d Deed) deed() (Deed, bool) { return d, d <= Resume || d == TryLetters }

// Storm does one of the troubles every now and then, on average once in the given time,
// until the test is over. Which, and when, depends on the seed, which is told if the test fails.
//
// Swap takes any of Golda's policies, and Rescale a policy of its own, which turns numbers of
// workers, instances, batches and capacities by chance: the pipeline's own is gone then. Where
// policies have stages share workers, handlers that wait need [stage.Blocking]. Pause takes a
// stage that was given to [Start], by itself or in a pipeline.Join, until the storm does
// something else.
func (t *Trial) Storm(seed uint64, every time.Duration, troubles ...Trouble) {
	t.tb.Helper()
	deeds := make([]Deed, 0, len(troubles))
	for _, x := range troubles {
		d, ok := x.deed()
		if !ok {
			t.tb.Fatalf("stagetest: Storm: %v is nothing that a trial can do", x)
		}
		deeds = append(deeds, d)
	}
	if len(deeds) == 0 || every <= 0 {
		return
	}
	t.mu.Lock()
	t.seeds = append(t.seeds, seed)
	t.mu.Unlock()
	t.storms.Go(func() { t.storm(seed, every, deeds) })
}

func (t *Trial) storm(seed uint64, every time.Duration, deeds []Deed) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var paused pipeline.Part
	resume := func() {
		if paused != nil {
			_ = t.Resume(paused) // refused if it has ended
			paused = nil
		}
	}
	defer resume()
	for {
		pause := time.NewTimer(time.Duration(rnd.Float64() * 2 * float64(every)))
		select {
		case <-t.calm.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		resume()
		deed := deeds[rnd.IntN(len(deeds))]
		if deed == Pause && len(t.stages) > 0 {
			paused = t.stages[rnd.IntN(len(t.stages))]
		}
		if t.trouble(deed, paused, rnd) {
			t.mu.Lock()
			t.done[deed.String()]++
			t.mu.Unlock()
		}
	}
}

// trouble does one deed, and reports whether there was anything to do.
func (t *Trial) trouble(d Deed, to pipeline.Part, rnd *rand.Rand) bool {
	switch d {
	case Pause:
		return to != nil && t.Pause(to) == nil
	case KillWorker, KillKeeper, KillClerk, KillPools, KillPool:
		return t.kill(Victim(d-KillWorker), rnd)
	case Swap:
		names := policy.Names()
		law, err := policy.ByName(names[rnd.IntN(len(names))])
		return err == nil && t.Use(law) == nil
	case Rescale:
		return t.Use(shaken{seed: rnd.Uint64()}) == nil
	case TryLetters:
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		n, _ := t.Quarantine().RetryAll(ctx, pipeline.LetterFilter{Limit: 5})
		return n > 0
	default:
		return d == Resume // which has happened by now
	}
}

// Deeds returns how often storms did what, by the deeds' names.
func (t *Trial) Deeds() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return sum(nil, t.done)
}
