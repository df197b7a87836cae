package cookbook

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// tally counts the events of one user.
type tally struct{ events int }

func (t *tally) HandleCommand(_ context.Context, e action) behaviour.Outcome {
	t.events++
	if e.kind == "bad" {
		panic("a bad event") // after it was counted
	}
	fmt.Println(e.user, t.events)
	return behaviour.OK(nil)
}

type action struct{ user, kind string }

// Snapshot is called after each event that did not crash. What it returns must not change later: copy maps and slices.
func (t *tally) Snapshot() any { return t.events }

// Restore is called for the tally that comes after a crash. If it returns an error, that is logged, and a fresh tally begins.
func (t *tally) Restore(state any) error {
	events, ok := state.(int)
	if !ok {
		return fmt.Errorf("a state of type %T", state)
	}
	t.events = events
	return nil
}

func Example_aCounterThatSurvivesACrash() {
	count := stage.Keyed("count", func(e action) string { return e.user }, func(string) *tally { return &tally{} })

	events := source.Slice([]action{{"ann", "view"}, {"ann", "click"}, {"ann", "bad"}, {"ann", "view"}})
	var lost []any
	letters := pipeline.DeadLetters(func(l stage.DeadLetter) { lost = append(lost, l.Command) })
	check(run(count, pipeline.Feed("events", count, events), letters))
	fmt.Println("lost:", lost)
	// Output:
	// ann 1
	// ann 2
	// ann 3
	// lost: [{ann bad}]
}
