package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/internal/feed"
)

// longestWait is how long a schedule sleeps at most before it looks at the
// clock again, which may have been set meanwhile.
const longestWait = time.Minute

var errStandsStill = errors.New("source: Schedule: the next time is not after the one before")

// Every makes a source that submits the time once in every period d, first
// after d. Like a [time.Ticker] it leaves out times that have passed while the
// stage was full, or while the feed was restarted. It is never exhausted.
// pipeline.New refuses a period that is not positive.
func Every(d time.Duration) Source[time.Time] {
	if d <= 0 {
		return feed.Refused[time.Time]("Every(%v): the period must be above 0", d)
	}
	var start time.Time
	return Schedule(func(after time.Time) time.Time {
		if start.IsZero() {
			start = after
		}
		return start.Add(after.Sub(start).Truncate(d) + d)
	})
}

// Schedule makes a source that submits each time of a schedule when it is
// reached. Next returns the first time after its argument, or the zero time if
// there is none: then the source is exhausted. The schedules of cron libraries
// have such a method. Times that have passed while the stage was full, or while
// the feed was restarted, are left out.
func Schedule(next func(after time.Time) time.Time) Source[time.Time] {
	if next == nil {
		return feed.Refused[time.Time]("Schedule: the function for the next time is nil")
	}
	return func(ctx context.Context, submit func(time.Time) error) error {
		for last := time.Now(); ; {
			at := next(last)
			switch {
			case at.IsZero():
				return nil
			case !at.After(last):
				return Fatal(fmt.Errorf("%w: %v after %v", errStandsStill, at, last))
			}
			if err := waitUntil(ctx, at); err != nil {
				return err
			}
			if err := submit(at); err != nil {
				return err
			}
			if last = time.Now(); last.Before(at) { // the clock was set back
				last = at
			}
		}
	}
}

// waitUntil waits until a time is reached.
func waitUntil(ctx context.Context, at time.Time) error {
	of := feed.Of(ctx)
	of.SetDue(at)
	defer of.SetDue(time.Time{})
	for left := time.Until(at); left > 0; left = time.Until(at) {
		timer := time.NewTimer(min(left, longestWait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
	return ctx.Err()
}
