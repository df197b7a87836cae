package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/stage"
)

// printer is a behaviour that can be switched off. It records the failed
// attempts to print.
type printer struct {
	on      atomic.Bool
	printed atomic.Int64

	mu      sync.Mutex // guards crashed
	crashed []time.Time
}

func (p *printer) HandleCommand(context.Context, string) behaviour.Outcome {
	if !p.on.Load() {
		p.mu.Lock()
		p.crashed = append(p.crashed, time.Now())
		p.mu.Unlock()
		panic("the printer does not answer")
	}
	p.printed.Add(1)
	return behaviour.OK(nil)
}

// backoff: a stage in which every command crashes does not spin. Its worker is
// replaced at once the first time, then after pauses that double. The stage is
// given a longest pause, because a printer that is off is not the fault of a
// page: so the commands in the queue stay there. Without it the pauses would
// delay no page by more than a tenth of a second.
func backoff(ctx context.Context, s *story) error {
	const pages, off = 40, 1200 * time.Millisecond
	printer := &printer{}
	printing := stage.New("print", printer, stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Max: time.Second}))
	p, err := startQuietly(ctx, "backoff", printing)
	if err != nil {
		return err
	}

	s.didf("%d pages are sent to a printer that is off.", pages)
	for range pages {
		if err := printing.Submit(ctx, "a page"); err != nil {
			return err
		}
	}
	select {
	case <-time.After(off):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.didf("It is switched on again after %v. Until then the stage", off)
	printer.on.Store(true)
	if err := p.Drain(ctx); err != nil {
		return err
	}
	began := printer.crashed[0]
	for i, at := range printer.crashed {
		if i == 0 {
			s.sawf("crashed")
			continue
		}
		s.sawf("crashed %8s later, after %8s in all", show.Brief(at.Sub(printer.crashed[i-1])), show.Brief(at.Sub(began)))
	}
	s.didf("Then %d pages were printed. Each crash cost one: %d are in quarantine.", printer.printed.Load(), p.Snapshot().DeadLettered)
	return s.end(p) //nolint:contextcheck // it stops softly although ctx has ended
}
