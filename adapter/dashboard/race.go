package dashboard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/race"
	"github.com/golda-dev/golda/internal/link"
)

const (
	longestRace = 10 * time.Minute
	raceTimeout = 5 * time.Minute // of the replay
	raceRuns    = 5               // of each policy: half of the default, for an answer within a minute
)

// racing is held while a race is under way: one takes a CPU.
var racing sync.Mutex

// errRacing reports that a race is under way.
var errRacing = errors.New("a race is under way: wait for its end")

// runRace races the policy of the pipeline against others, and notes the advice
// in the journal. Nothing changes.
func runRace(ctx context.Context, r *request) (api.Done, error) {
	aim := race.Aim{Within: time.Duration(r.WithinNs), For: time.Duration(r.ForNs), Runs: raceRuns}
	if aim.Within < 0 || aim.For < 0 || aim.For > longestRace {
		return api.Done{}, fmt.Errorf("forNs is %v and withinNs %v: use at most %v, or 0 for a minute", aim.For, aim.Within, longestRace)
	}
	var others []controller.Policy
	if r.Name != "" {
		p, err := policy.ByName(r.Name)
		if err != nil {
			return api.Done{}, err
		}
		others = []controller.Policy{p}
	}
	if !racing.TryLock() {
		return api.Done{}, errRacing
	}
	defer racing.Unlock()
	report, err := race.Live(ctx, r.p, aim, others...)
	if err != nil {
		return api.Done{}, err
	}
	is := report.Present.Policy.Name()
	best := is
	if better := report.Better(); better != nil {
		best = better.Policy.Name()
	}
	n := link.Operate(r.p).Note("operator:"+operator(r.Who), "race", "", is, best, report.Advice())
	return api.Done{N: n, Count: len(report.Places), Text: report.String()}, nil
}

// timeoutOf returns how long an action may take.
func timeoutOf(verb string, a *api.Action) time.Duration {
	if verb != "race" {
		return actionTimeout
	}
	return max(time.Duration(a.ForNs), time.Minute) + raceTimeout
}
