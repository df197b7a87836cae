package stagetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/pipeline"
)

// Patience sets for how long nothing may happen in the pipeline of a [Trial] though commands are in flight; the default is
// 20 seconds. A handler that takes longer needs more. It is a part for [Start].
func Patience(d time.Duration) pipeline.Part { return patiently(d) }

type patiently time.Duration

// Part makes it a part of a pipeline.
func (patiently) Part(part.Seal) {}

// patienceOf takes the patience out of the parts.
func patienceOf(parts []pipeline.Part) (rest []pipeline.Part, within time.Duration) {
	within = patience
	for _, p := range parts {
		if d, is := p.(patiently); is {
			within = time.Duration(d)
			continue
		}
		rest = append(rest, p)
	}
	return rest, within
}

// endsWithin is how long a test may take to end when its pipeline was stopped hard.
var endsWithin = patience

// errHung is why a trial's pipeline is stopped hard.
var errHung = errors.New("stagetest: the test has failed; its pipeline is stopped hard")

// heed fails the test as soon as the watchdog has found something. The test may be blocked in a call of the pipeline, and
// no other goroutine can end it there; but a hard stop ends the call.
func (t *Trial) heed(within time.Duration) {
	defer close(t.bitten)
	select {
	case <-t.over:
		return
	case <-t.dog.Bitten():
	}
	t.hung = true
	report := fmt.Sprintf("%s: %v", t.tb.Name(), t.dog.Stop())
	fmt.Fprintln(os.Stderr, report) // what a test logs is shown when it has ended
	t.tb.Error(report)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errHung)
	_ = t.Stop(ctx)
	select {
	case <-t.over:
	case <-time.After(max(within, endsWithin)):
		panic("stagetest: the pipeline was stopped hard, but the test has not ended: " + report)
	}
}
