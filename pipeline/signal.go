package pipeline

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/golda-dev/golda/internal/link"
)

// RunUntilSignal is [Pipeline.Run] for the main function of a program: it lets
// the pipeline run until SIGINT or SIGTERM arrives, or ctx ends. Then it
// drains, for as long as [DrainTimeout] says, by default 25 s: together with
// the [Grace] that is less than the 30 s that Kubernetes gives a pod. A signal
// while it drains stops it hard at once: handlers' contexts end, and commands
// that are not done are dead-lettered. A third signal, and any signal after
// RunUntilSignal has returned, acts as without RunUntilSignal; so pressing
// Ctrl-C three times ends the program.
//
// It returns nil if all was drained, whatever ended the run, and else what Run
// returns: a [*StopError], whose Report is worth writing down. The exit status
// of a program that serves until it is stopped should be 0 if the error is nil,
// and else 1. A program that should come to an end by itself, and did not
// because of a signal, should exit with 128 plus the signal's number even if
// the error is nil, as shells expect; the [Ending] has the signal.
//
// A signal before the stages have started ends the start with an error that
// names it. Sources that feed the pipeline get [stage.ErrDraining] when it
// ends. Use RunUntilSignal for one pipeline of a process: if several pipelines
// run so, a signal stops all of them at once, not one after the other.
func (p *Pipeline) RunUntilSignal(ctx context.Context) error {
	link.CheckContext(ctx, "pipeline: RunUntilSignal")
	signals := make(chan os.Signal, 2) // two may arrive at once
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		p.handleSignals(ctx, signals, over, cancel)
	}()
	err := p.Run(running)
	close(over)
	<-ended
	return err
}

// handleSignals handles signals until over is closed: the first cancels the
// run, the second makes its stop hard.
func (p *Pipeline) handleSignals(ctx context.Context, signals chan os.Signal, over <-chan struct{}, cancel context.CancelCauseFunc) {
	select {
	case s := <-signals:
		p.log.Info("draining", "signal", s, "within", p.set.drain)
		p.interrupt(s, false)
		cancel(&signalError{s})
	case <-ctx.Done(): // it drains already
	case <-over:
		return
	}
	select {
	case s := <-signals:
		signal.Stop(signals)
		p.log.Warn("stopping hard", "signal", s, "within", p.grace())
		p.interrupt(s, true)
		p.life.endSoftStop(&signalError{s})
	case <-over:
	}
}
