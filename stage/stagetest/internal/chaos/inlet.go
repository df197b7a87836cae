package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// mostDeliveries is how often an inlet delivers a command that fails. Then it
// would be a dead letter of the inlet.
const mostDeliveries = 3

// inlet is what a feed that redelivers knows of its commands. The lock of the
// feeder guards it.
type inlet struct {
	waiting  []int64 // to be delivered again
	inFlight map[uint64]int64
	tries    map[int64]int
	heard    int // ends
	dead     int // commands that have failed mostDeliveries times
}

// deliver is the source. It delivers commands that were not acknowledged
// again before new commands, and ends when there are neither for a moment.
func (f *feeder) deliver(ctx context.Context, submit func(cmd command, ended func(error)) error) error {
	defer f.enter(-1)()
	for idle := 0; ctx.Err() == nil; {
		if f.Pause > 0 {
			time.Sleep(f.Pause)
		}
		n, ok := f.take()
		if !ok && idle == 20 {
			return nil // a drain ends the windows
		}
		if !ok {
			idle++
			time.Sleep(time.Millisecond)
			continue
		}
		if err := f.fail(n); err != nil {
			f.putBack(n)
			return err
		}
		if err := f.deliverOne(ctx, n, submit); err != nil {
			f.putBack(n)
			return err
		}
	}
	return nil
}

// take returns the next command to deliver.
func (f *feeder) take() (n int64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) > 0 {
		n, f.waiting = f.waiting[0], f.waiting[1:]
		return n, true
	}
	if f.Commands > 0 && f.next >= int64(f.Commands) {
		return 0, false
	}
	f.next++
	return f.next - 1, true
}

func (f *feeder) putBack(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, n)
}

// deliverOne submits one command, which has a new ID for each delivery.
func (f *feeder) deliverOne(ctx context.Context, n int64, submit func(cmd command, ended func(error)) error) error {
	r := f.run
	cmd := r.newCommand(r.plan.Graph.Hops)
	fed := &fedCommand{of: f, number: n}
	r.mu.Lock()
	r.fed[cmd.ID] = fed
	r.mu.Unlock()
	to := r.sites[f.To]
	to.expect(cmd)
	f.mu.Lock()
	if f.inFlight == nil {
		f.inFlight, f.tries = map[uint64]int64{}, map[int64]int{}
	}
	f.inFlight[cmd.ID] = n
	f.mu.Unlock()
	err := submit(cmd, func(err error) { f.end(cmd.ID, fed, err) })
	if err == nil {
		r.accepted.Add(1)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.accepted++
		return nil
	}
	to.expectNot(cmd)
	f.mu.Lock()
	delete(f.inFlight, cmd.ID)
	f.mu.Unlock()
	if !errors.Is(err, source.ErrEnded) && ctx.Err() == nil {
		r.breachf(OneEnd, "command %d of %s was refused for an unknown reason: %v", n, feedName(f.index), err)
	}
	return err
}

// end hears of the end of a command.
func (f *feeder) end(id uint64, c *fedCommand, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.inFlight[id]; !ok {
		f.run.breachf(OneEnd, "%s hears of the end of command %d again", feedName(f.index), c.number)
		return
	}
	delete(f.inFlight, id)
	f.heard++
	if f.spoil == "unheard" {
		err = nil
	}
	if err == nil {
		c.acked.Store(true)
		if c.working.Load() > 0 {
			f.run.breachf(OneEnd, "command %d of %s is acknowledged, and a handler works on it", c.number, feedName(f.index))
		}
		return
	}
	f.run.excuse(id)
	f.run.excuseLost(err)
	stopped := errors.Is(err, stage.ErrStopped) || errors.Is(err, pipeline.ErrStopped)
	if f.tries[c.number]++; f.tries[c.number] >= mostDeliveries && !stopped {
		f.dead++
		return
	}
	f.waiting = append(f.waiting, c.number)
}

// left returns the feed as the next process has it: all that was not
// acknowledged comes again.
func (f *feeder) left() Feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.Feed
	next.again, next.From, next.Fatal = f.waiting, int(f.next), false
	if next.Commands = max(f.Commands, next.From); f.Commands == 0 {
		next.Commands = next.From + 30
	}
	return next
}

// judgeLocked checks that the source has heard of each end once, and that there
// is no letter of an acknowledged command.
func (f *feeder) judgeLocked(s pipeline.FeedSnapshot, breachf func(format string, args ...any)) {
	if s.Submitted != f.accepted || uint64(f.heard) != f.accepted {
		breachf("%d commands were accepted, %d have ended; the pipeline says %d", f.accepted, f.heard, s.Submitted)
	}
	if len(f.inFlight) > 0 {
		breachf("it has not heard of the ends of %d commands: %v", len(f.inFlight), f.inFlight)
	}
	f.run.mu.Lock()
	var lost []int64
	for _, c := range f.run.fed {
		if c.of == f && c.acked.Load() && c.letter && f.run.refused == 0 {
			lost = append(lost, c.number)
		}
	}
	f.run.mu.Unlock()
	if len(lost) > 0 {
		breachf("commands %v were acknowledged, and there are letters of them", lost)
	}
	if s.State == "gave up" && !f.Fatal {
		breachf("it gave up: %v", s.Err)
	}
}
