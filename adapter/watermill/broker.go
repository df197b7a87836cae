package watermill

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/backoff"
	"github.com/golda-dev/golda/internal/verdict"
)

// broker knows whether the broker is away: no subscription works, or it does
// not answer pings.
type broker struct {
	set func(error) // reports it
	log *slog.Logger

	mu               sync.Mutex // guards the rest
	live             int        // subscriptions that work
	failure, silence error      // of the last subscription that failed, if none works; of the last ping
	isAway           bool
}

// up notes that a subscription works.
func (b *broker) up() {
	b.change(func() { b.live, b.failure = b.live+1, nil })
}

// down notes that a subscription that worked has ended.
func (b *broker) down(why error) {
	b.change(func() {
		if b.live--; b.live == 0 {
			b.failure = why
		}
	})
}

// failed notes that a subscription could not be made.
func (b *broker) failed(why error) {
	b.change(func() {
		if b.live == 0 {
			b.failure = why
		}
	})
}

// answered notes the result of a ping.
func (b *broker) answered(err error) { b.change(func() { b.silence = err }) }

// change changes the known facts with f, and reports whether the broker is
// away.
func (b *broker) change(f func()) {
	b.mu.Lock()
	f()
	why := b.failure
	if why == nil {
		why = b.silence
	}
	b.set(why)
	before := b.isAway
	b.isAway = why != nil
	b.mu.Unlock()
	switch {
	case why != nil && !before:
		b.log.Warn("the broker is away; the source waits for it", "reason", verdict.Text(why))
	case why == nil && before:
		b.log.Info("the broker is back")
	}
}

// How often the broker is asked for a sign of life, and how long it may take.
const (
	pingEvery = time.Second
	pingTime  = 5 * time.Second
)

// ping asks for signs of life until ctx ends. It does not wait for a function
// that ignores its context then; all is the group of those.
func (b *broker) ping(ctx context.Context, all *sync.WaitGroup, user func(context.Context) error) {
	for {
		answer := make(chan error, 1)
		all.Go(func() {
			err := errGoexit
			defer func() { answer <- err }()
			err = pingOnce(ctx, user)
		})
		late := time.After(pingTime + pingEvery)
		for answered := false; !answered; {
			var err error
			select {
			case err = <-answer:
				answered = true
			case <-late:
				err = errSilent
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return
			}
			b.answered(err)
		}
		if !sleep(ctx, pingEvery) {
			return
		}
	}
}

var errSilent = fmt.Errorf("ping: the function has not returned within %v", pingTime+pingEvery)

// pingOnce calls the user's function. A panic is an error.
func pingOnce(ctx context.Context, user func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("ping: the function has panicked: %v", v)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if err := user(ctx); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// retryPause returns the pause after the n-th failure to reach the broker.
func retryPause(n int) time.Duration {
	return backoff.Pause(firstRetry, longestRetry, n, retryJitter*(2*rand.Float64()-1))
}
