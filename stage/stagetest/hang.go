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

// patience is how long the pipeline of a trial may make no progress, if the
// test does not say. It is long because a busy machine is not a deadlock.
const patience = 20 * time.Second

// Patience sets how long the pipeline of a [Trial] may make no progress
// although commands are in flight; the default is 20 seconds. A handler that
// takes longer needs more, and so does a batch that lingers; the time that a
// command waits for its next try does not count. In a bubble of
// testing/synctest it is real time. Patience is a part for [Run].
func Patience(d time.Duration) pipeline.Part { return patiently(d) }

type patiently time.Duration

// Part makes it a part of a pipeline.
func (patiently) Part(part.Seal) {}

// patienceOf removes the patience from the parts and returns it.
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

// endsWithin is how long a test may take to end after its pipeline was stopped
// hard.
var endsWithin = patience

// errHung is the cause with which a trial's pipeline is stopped hard.
var errHung = errors.New("stagetest: the test has failed; its pipeline is stopped hard")

// reportBreach fails the test as soon as the watchdog has found a breach. The
// test may be blocked in a call of the pipeline, and no other goroutine can end
// it there; but a hard stop ends the call.
func (t *Trial) reportBreach(within time.Duration) {
	defer close(t.reported)
	select {
	case <-t.over:
		return
	case <-t.dog.Broken():
	}
	t.hung = true
	report := fmt.Sprintf("%s: %v", t.tb.Name(), t.dog.Stop())
	fmt.Fprintln(os.Stderr, report) // the log of a test is shown only when it has ended
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
