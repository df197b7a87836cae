package nats

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// errPaused is why an inlet asks for no messages.
var errPaused = errors.New("the stage is paused")

// pausing ends the receiving of messages while the stage that an inlet feeds is
// paused, so that other processes get them.
type pausing struct {
	is   func() bool // reports whether the stage is paused
	away func(error)
	on   atomic.Bool // since the receiving has ended
}

// between calls receive between the pauses, with a context that ends with the
// next pause, until ctx ends or receive returns by itself. GiveBack is called
// at the begin of a pause.
func (p *pausing) between(ctx context.Context, receive func(context.Context), giveBack func()) {
	for {
		if p.is() {
			p.on.Store(true)
			giveBack()
			p.away(errPaused)
			if !p.waitUntil(ctx, false) {
				return
			}
			p.on.Store(false)
			p.away(nil)
		}
		if !p.interrupt(ctx, receive) {
			return
		}
	}
}

// interrupt calls receive, and ends its context when a pause begins. It reports
// whether that was so.
func (p *pausing) interrupt(ctx context.Context, receive func(context.Context)) (paused bool) {
	run, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		paused = p.waitUntil(run, true)
		stop()
	})
	receive(run)
	stop()
	watching.Wait()
	return paused
}

// waitUntil waits until the stage is paused, or is not, and reports false if
// ctx ends before.
func (p *pausing) waitUntil(ctx context.Context, paused bool) bool {
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if p.is() == paused {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}
