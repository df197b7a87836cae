package pipeline

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/golda-dev/golda/internal/need"
)

// SignalError is why a pipeline did not start, or why it stopped hard: a signal told it to.
type SignalError struct{ Signal os.Signal }

// Error names the signal.
func (e *SignalError) Error() string { return fmt.Sprintf("signal: %v", e.Signal) }

// RunUntilSignal is [Pipeline.Run] for the main function of a program: it lets the pipeline run
// until SIGINT or SIGTERM comes, or ctx ends. Then it drains, for as long as [DrainTimeout] says,
// by default 25 s: with the [Grace] that is less than the 30 s that Kubernetes gives a pod. A
// signal while it drains stops it hard at once: handlers' contexts end, and what is not done is
// dead-lettered. The signal after that, and any when RunUntilSignal has returned, does what it
// would have done without; so whoever presses Ctrl-C three times is rid of the program.
//
// It returns nil if all was drained, whatever ended the run, and else what Run would: a
// [*StopError], whose Report is to be written down. The exit status of a program that serves
// until it is told to stop should be 0 if the error is nil, and else 1. One that should have come
// to an end by itself and did not, because of a signal, should exit with 128 and the signal's
// number even so, as shells expect: [Pipeline.Ending] is [Interrupted] then, and [Finished] if the program stopped the pipeline
// itself.
//
// A signal before the stages have started ends the start with a [*SignalError]. Sources that
// feed the pipeline are told of the end by [stage.ErrDraining]. It is for one pipeline of a
// process: several, each run so, are all stopped at once, not one after the other.
func (p *Pipeline) RunUntilSignal(ctx context.Context) error {
	need.Context(ctx, "pipeline: RunUntilSignal")
	signals := make(chan os.Signal, 2) // two may come at once
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	told, tell := context.WithCancelCause(ctx)
	defer tell(nil)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		p.handleSignals(ctx, signals, over, tell)
	}()
	err := p.Run(told)
	close(over)
	<-ended
	return err
}

// handleSignals does as the signals say until it is over.
func (p *Pipeline) handleSignals(ctx context.Context, signals chan os.Signal, over <-chan struct{}, tell context.CancelCauseFunc) {
	select {
	case s := <-signals:
		p.set.log.Info("draining", "signal", s, "within", p.set.drain)
		p.interrupt(s, false)
		tell(&SignalError{s})
	case <-ctx.Done(): // it drains already
	case <-over:
		return
	}
	select {
	case s := <-signals:
		signal.Stop(signals)
		p.set.log.Warn("stopping hard", "signal", s, "within", p.grace())
		p.interrupt(s, true)
		p.endSoftStop(&SignalError{s})
	case <-over:
	}
}
