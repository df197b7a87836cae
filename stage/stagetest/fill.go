package stagetest

import (
	"context"
	"testing"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// fillWait is how long Fill waits for slots that other commands take.
const fillWait = 10 * time.Second

// Fill pauses a stage and fills its queue with copies of a command, so that the
// next submission finds it full: it waits, is refused, or drops a command, as
// the stage's [stage.Overflow] says. Release lets the stage go on, and waits
// until the copies have ended. It may be called more than once, and is called
// when the test is over. No handler sees the copies: they end with an error,
// and count as accepted and as errors of the stage. Key functions and
// disciplines are called for them.
//
// Of a [stage.Keyed] stage it fills the slots that the key of the command may
// have.
//
// The pipeline must run, and nothing else may pause or drain the stage
// meanwhile.
//
//	release := stagetest.Fill(t, p.Pipeline, save, order)
//	require.ErrorIs(t, save.Submit(ctx, order), stage.ErrFull) // save has stage.Overflow(overflow.Reject)
//	release()
func Fill[C any](tb testing.TB, p *pipeline.Pipeline, s *stage.Stage[C], cmd C) (release func()) {
	tb.Helper()
	switch {
	case p == nil:
		tb.Fatal("stagetest: Fill: the pipeline is nil")
	case s == nil || s.Inlet() == nil:
		tb.Fatal("stagetest: Fill: the stage is nil")
	}
	if err := p.Pause(s); err != nil {
		tb.Fatalf("stagetest: Fill: %v", err)
	}
	given, end := context.WithCancel(context.Background())
	copies := filling[C]{to: s, cmd: cmd, over: make(chan struct{})}
	release = func() {
		end()
		if p.Resume(s) == nil { // it fails if the pipeline has ended
			copies.wait()
		}
	}
	tb.Cleanup(release)
	st, _ := stageOf(p.Snapshot(), s.Name())
	full := st.Queue.Capacity
	if st.Queue.KeyCapacity > 0 {
		full = min(full, st.Queue.Queued+st.Queue.KeyCapacity)
	}
	go copies.submit(given, full-st.Queue.Queued) // it waits if others fill the stage meanwhile
	for began := time.Now(); st.Queue.Queued < full; time.Sleep(time.Millisecond) {
		if err := copies.refused(); err != nil {
			tb.Fatalf("stagetest: Fill: stage %q refuses the command: %v", s.Name(), err)
		}
		if time.Since(began) > fillWait {
			tb.Fatalf("stagetest: Fill: stage %q is not full after %v\n%s", s.Name(), fillWait, row(st))
		}
		st, _ = stageOf(p.Snapshot(), s.Name())
	}
	return release
}

// filling is the copies of a command that fill a stage.
type filling[C any] struct {
	to   *stage.Stage[C]
	cmd  C
	over chan struct{} // closed when all are submitted, or one was refused

	tickets []*stage.Ticket // written before over is closed
	err     error           // written before over is closed
}

// submit submits n copies. They end when ctx has ended and a worker looks at
// them.
func (f *filling[C]) submit(ctx context.Context, n int) {
	defer close(f.over)
	for range n {
		ticket, err := f.to.Ask(ctx, f.cmd)
		if err != nil {
			f.err = err
			return
		}
		f.tickets = append(f.tickets, ticket)
	}
}

// refused returns why a copy was refused.
func (f *filling[C]) refused() error {
	select {
	case <-f.over:
		return f.err
	default:
		return nil
	}
}

// wait waits until the copies have ended.
func (f *filling[C]) wait() {
	late := time.NewTimer(fillWait)
	defer late.Stop()
	<-f.over
	for _, ticket := range f.tickets {
		select {
		case <-ticket.Done():
		case <-late.C:
			return
		}
	}
}
