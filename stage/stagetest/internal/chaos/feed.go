package chaos

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
)

// Feed is a pipeline.Feed of a plan. It submits its commands in order, and each
// exactly once, whatever crashes or is killed.
type Feed struct {
	To       int           // the node that it feeds
	Commands int           // how many it has; 0: it never ends
	Pause    time.Duration // before each command: it is slower than the stages
	Offsets  bool          // it counts in a way of its own: see source.From
	Crashes  int           // how often its source fails: with an error, a panic or a runtime.Goexit
	Fatal    bool          // its last failure is a source.Fatal, for Fragile plans only

	// Checkpoint has its checkpoints saved. A saved one must not be ahead of a
	// command that is handled then or later.
	Checkpoint bool
	From       int // with a Checkpoint: how many of its commands an earlier process has ended
	Unsaved    int // with a Checkpoint: how often saving it fails

	// Redelivers makes it a source that hears of the ends of its commands, as
	// an inlet of messages does: a command that has ended without an error is
	// acknowledged, and any other is delivered again, at most three times, also
	// in the next process. An acknowledged command must have been handled to
	// its end.
	Redelivers bool

	again []int64 // with Redelivers: what an earlier process has left, from the numbers below From

	spoil string // breaks a promise, for tests of the checks: see feeder.spoiled
}

// feedName returns the name of a feed.
func feedName(i int) string { return fmt.Sprintf("f%d", i) }

// String returns the fields that are set, as text.
func (f Feed) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "→%d", f.To)
	for _, word := range []struct {
		is   bool
		text string
	}{
		{f.Commands == 0, "endless"},
		{f.Commands > 0, fmt.Sprintf("commands=%d", f.Commands)},
		{f.Pause > 0, fmt.Sprintf("pause=%v", f.Pause)},
		{f.Offsets, "offsets"},
		{f.Crashes > 0, fmt.Sprintf("crashes=%d", f.Crashes)},
		{f.Fatal, "fatal"},
		{f.Checkpoint, fmt.Sprintf("checkpoint=%d", f.From)},
		{f.Unsaved > 0, fmt.Sprintf("unsaved=%d", f.Unsaved)},
		{f.Redelivers, "redelivers"},
	} {
		if word.is {
			b.WriteString(" " + word.text)
		}
	}
	return b.String()
}

// resumes reports whether a feed goes on in the next process.
func (f Feed) resumes() bool { return f.Checkpoint || f.Redelivers }

// length returns how many commands a feed submits, or for one that never ends,
// how many are enough.
func (f Feed) length() int {
	if f.Commands == 0 {
		return 100
	}
	return max(f.Commands-f.From, 0)
}

// feeder is a running feed: the counts of its source, to be compared with the
// accounts of the pipeline.
type feeder struct {
	Feed
	run   *run
	index int

	reached atomic.Int64 // the last checkpoint: save was called with it

	mu       sync.Mutex // guards all fields below
	next     int64      // the command after the last accepted one
	accepted uint64
	crashed  int
	unsaved  int
	ran      bool
	running  bool
	saved    int64 // the last checkpoint that was saved
	inlet          // if it Redelivers
}

func newFeeder(r *run, index int, of Feed) *feeder {
	f := &feeder{Feed: of, run: r, index: index, next: int64(of.From)}
	f.saved = f.offset(f.next)
	f.waiting = slices.Clone(of.again)
	return f
}

// fedCommand is a command that a feed has submitted.
type fedCommand struct {
	of      *feeder
	number  int64
	working atomic.Int32 // how many handlers work on it, or on commands made from it
	acked   atomic.Bool  // its source has heard that it ended well
	stopped bool         // it was ended by a stop; guarded by the lock of the run
	letter  bool         // there is a letter of it, or of a command made from it; likewise
}

// part returns the feed as a part of the pipeline.
func (f *feeder) part() pipeline.Part {
	src := source.Source[command](f.submitPlainly)
	if f.Offsets {
		src = source.From(f.submitOffsets)
	}
	if f.Checkpoint {
		src = source.Checkpoint(src, f.offset(int64(f.From)), f.save)
	}
	if f.Redelivers {
		src = source.Ends(f.deliver)
	}
	return pipeline.Feed(feedName(f.index), behaviour.Target[command](f.run.sites[f.To].stage), src)
}

// stride is the distance of two offsets.
const stride = 3

// offset returns the position of a command.
func (f *feeder) offset(number int64) int64 {
	if f.Offsets {
		return number * stride
	}
	return number
}

// submitPlainly is a source that continues at its position.
func (f *feeder) submitPlainly(ctx context.Context, submit func(command) error) error {
	return f.submitFrom(ctx, source.Position(ctx), func(cmd command, _ int64) error { return submit(cmd) })
}

// submitOffsets is a source with positions of its own.
func (f *feeder) submitOffsets(ctx context.Context, from int64, submit func(command, int64) error) error {
	if from%stride != 0 {
		f.run.breachf(OneEnd, "%s continues at %d, which is no position of it", feedName(f.index), from)
	}
	return f.submitFrom(ctx, from/stride, submit)
}

// submitFrom submits the commands from one on. It fails where the plan says so.
func (f *feeder) submitFrom(ctx context.Context, from int64, submit func(cmd command, next int64) error) error {
	defer f.enter(from)()
	for n := from; f.Commands == 0 || n < int64(f.Commands); n++ {
		if f.Pause > 0 {
			time.Sleep(f.Pause)
		}
		if err := f.fail(n); err != nil {
			return err
		}
		if err := f.submit(ctx, n, submit); err != nil {
			return err
		}
	}
	return nil
}

// resumed is the plan of the next process: the same pipeline, with the feeds
// that have checkpoints or redeliver. Each begins where the last checkpoint was
// saved, or with the commands that were not acknowledged, and is run until it
// is exhausted.
func (p Plan) resumed(before *run) Plan {
	p.Commands, p.End, p.Resumes, p.Fragile, p.Disturbances = 0, Exhausted, false, false, slices.Clone(p.Disturbances)
	p.Disturbances = slices.DeleteFunc(p.Disturbances, func(d Disturbance) bool {
		return d.Action == KillFeed || d.Action == Drain || d.Action == DrainStage || d.Action == Reopen
	})
	p.Feeds = nil
	for _, f := range before.feeders {
		if f.Redelivers {
			p.Feeds = append(p.Feeds, f.left())
		}
		if next := f.Feed; f.Checkpoint {
			next.From = int(f.saved)
			if f.Offsets {
				next.From /= stride
			}
			if next.Commands = max(f.Commands, next.From); f.Commands == 0 {
				next.Commands = next.From + 30
			}
			next.Fatal = false
			p.Feeds = append(p.Feeds, next)
		}
	}
	return p
}

// enter checks that a run of the source begins behind the last accepted
// command, and beside no other.
func (f *feeder) enter(from int64) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running {
		f.run.breachf(OneEnd, "the source of %s runs twice at once", feedName(f.index))
	}
	if from != f.next && !f.Redelivers {
		f.run.breachf(OneEnd, "%s continues at command %d, and the next one is %d", feedName(f.index), from, f.next)
	}
	f.ran, f.running = true, true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.running = false
	}
}

// errSource is a failure of a source or of saving a checkpoint.
var errSource = &stagetest.InjectedError{Fault: stagetest.Error, Attempt: 1}

// fail fails before a command, in one of three ways.
func (f *feeder) fail(n int64) error {
	f.mu.Lock()
	key := oracle.Mix(f.run.plan.Seed ^ uint64(n)<<8 ^ uint64(f.index))
	fails := f.crashed < f.Crashes && key%5 == 0
	if fails {
		f.crashed++
	}
	fatal := fails && f.Fatal && f.crashed == f.Crashes
	f.mu.Unlock()
	switch {
	case !fails:
		return nil
	case fatal:
		return source.Fatal(errSource)
	case key%3 == 0:
		panic(errSource)
	case key%3 == 1:
		runtime.Goexit()
	}
	return errSource
}

// submit submits one command.
func (f *feeder) submit(ctx context.Context, n int64, submit func(cmd command, next int64) error) error {
	r := f.run
	cmd := r.newCommand(r.plan.Graph.Hops)
	r.mu.Lock()
	r.fed[cmd.ID] = &fedCommand{of: f, number: n}
	r.mu.Unlock()
	to := r.sites[f.To]
	to.expect(cmd)
	if err := submit(cmd, f.offset(n+1)); err != nil {
		to.expectNot(cmd)
		if !errors.Is(err, source.ErrEnded) && ctx.Err() == nil {
			r.breachf(OneEnd, "command %d of %s was refused for an unknown reason: %v", n, feedName(f.index), err)
		}
		return err
	}
	r.accepted.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != n {
		r.breachf(OneEnd, "%s: command %d was accepted, and the next one is %d", feedName(f.index), n, f.next)
	}
	f.next = n + 1
	f.accepted++
	return f.spoiled(ctx, n, submit, cmd)
}

// spoiled breaks a promise at the second command, as an error of the pipeline
// might.
func (f *feeder) spoiled(ctx context.Context, n int64, submit func(cmd command, next int64) error, cmd command) error {
	switch {
	case n != 1:
	case f.spoil == "twice":
		return submit(cmd, f.offset(n+1))
	case f.spoil == "gap":
		f.next++
	case f.spoil == "lost":
		f.run.sites[f.To].expect(f.run.newCommand(0))
	case f.spoil == "early":
		f.mu.Unlock()
		defer f.mu.Lock()
		return f.save(ctx, f.offset(n+1))
	}
	return nil
}

// save is called with each checkpoint. No command before it may be worked on
// now, nor later: see site.note.
func (f *feeder) save(_ context.Context, position int64) error {
	before := f.reached.Load()
	f.mu.Lock()
	saved, fails := f.saved, f.unsaved < f.Unsaved
	if fails {
		f.unsaved++
	}
	f.mu.Unlock()
	switch {
	case position <= saved, position < before:
		f.run.breachf(OneEnd, "checkpoint %d of %s came after checkpoint %d", position, feedName(f.index), before)
	case position > f.offset(int64(f.From)+int64(f.length())) && f.Commands > 0, f.Offsets && position%stride != 0:
		f.run.breachf(OneEnd, "checkpoint %d of %s is no position of it", position, feedName(f.index))
	}
	f.reached.Store(position)
	f.checkWorking(position)
	if fails && position%2 == 0 {
		panic(errSource)
	}
	if fails {
		return errSource
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.saved = position; f.spoil == "ahead" {
		f.saved = f.offset(f.next)
	}
	return nil
}

// checkWorking checks that no handler works on a command before a checkpoint.
func (f *feeder) checkWorking(position int64) {
	f.run.mu.Lock()
	var early []int64
	for _, c := range f.run.fed {
		if c.of == f && f.offset(c.number) < position && c.working.Load() > 0 {
			early = append(early, c.number)
		}
	}
	f.run.mu.Unlock()
	if len(early) > 0 {
		f.run.breachf(OneEnd, "checkpoint %d of %s, and a handler works on commands %v", position, feedName(f.index), early)
	}
}

// startWork notes that a handler works on a command, or on one made from it.
func (r *run) startWork(stage string, cmd command) (stop func()) {
	if len(r.feeders) == 0 {
		return func() {}
	}
	r.mu.Lock()
	c := r.fed[cmd.ID]
	r.mu.Unlock()
	if c == nil {
		return func() {}
	}
	c.working.Add(1)
	if reached := c.of.reached.Load(); c.of.offset(c.number) < reached {
		r.breachf(OneEnd, "stage %s: command %d of %s is handled after checkpoint %d", stage, c.number, feedName(c.of.index), reached)
	}
	if c.acked.Load() {
		r.breachf(OneEnd, "stage %s: command %d of %s is handled after it was acknowledged", stage, c.number, feedName(c.of.index))
	}
	return func() { c.working.Add(-1) }
}

// judgeFeeds compares what the sources have seen with what the pipeline says.
func (r *run) judgeFeeds(s pipeline.Snapshot) {
	known := map[string]pipeline.FeedSnapshot{} // also the feeds of added stages
	for _, of := range s.Feeds {
		known[of.Name] = of
	}
	for _, f := range r.feeders {
		of, ok := known[feedName(f.index)]
		if !ok {
			r.breachf(Law, "the pipeline does not know %s", feedName(f.index))
			continue
		}
		f.judge(of)
	}
}

func (f *feeder) judge(s pipeline.FeedSnapshot) {
	for wait := time.Now(); f.isRunning() && time.Since(wait) < 2*time.Second; {
		time.Sleep(time.Millisecond)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	breachf := func(format string, args ...any) {
		f.run.breachf(OneEnd, "%s: "+format, append([]any{feedName(f.index)}, args...)...)
	}
	if !f.ran {
		return
	}
	if f.Redelivers {
		f.judgeLocked(s, breachf)
		return
	}
	if s.Submitted != f.accepted || s.Position != f.offset(f.next) {
		breachf("%d commands were accepted, up to %d; the pipeline says %d up to %d", f.accepted, f.offset(f.next), s.Submitted, s.Position)
	}
	all := f.Commands > 0 && f.next == int64(max(f.Commands, f.From))
	if s.State == "exhausted" && !all {
		breachf("it is exhausted after %d of %d commands", f.next, f.Commands)
	}
	if s.State == "running" || s.State == "restarting" || s.State == "waiting" || f.running {
		breachf("it is %q after the end", s.State)
	}
	if s.State == "gave up" && !f.Fatal {
		breachf("it gave up: %v", s.Err)
	}
	for _, c := range f.run.fedBy(f) {
		if c.stopped && f.offset(c.number) < f.saved {
			breachf("the stop has ended command %d, and the checkpoint is %d: the next process would skip it", c.number, f.saved)
		}
	}
	if f.Checkpoint && f.saved != f.offset(f.next) && f.run.endsAll() && f.unsaved == 0 {
		breachf("the last checkpoint is %d, and all commands have ended up to %d", f.saved, f.offset(f.next))
	}
}

// fedBy returns the commands that a feed has submitted.
func (r *run) fedBy(f *feeder) (all []*fedCommand) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.fed {
		if c.of == f {
			all = append(all, c)
		}
	}
	return all
}

func (f *feeder) isRunning() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

// endsAll reports whether all commands ended before the pipeline stopped.
func (r *run) endsAll() bool { return r.plan.End != Hard && r.plan.End != Soon && r.pipe.Err() == nil }

// runExhausted runs the pipeline until its feeds are exhausted.
func (r *run) runExhausted() error {
	r.ran = make(chan error, 1)
	go func() { r.ran <- r.pipe.Run(context.Background()) }()
	select {
	case <-r.pipe.Started():
		return nil
	case err := <-r.ran:
		r.ran <- err // for exhaust
		select {
		case <-r.pipe.Started(): // and it has ended already
			return nil
		default:
			return err
		}
	}
}

// exhaust waits until Run has returned.
func (r *run) exhaust() {
	select {
	case err := <-r.ran:
		ending := r.pipe.Ending()
		if r.pipe.Err() == nil && (err != nil || !ending.Exhausted) {
			r.breachf(Progress, "Run has returned: %s, %v", ending, err)
		}
	case <-time.After(patience):
		var feeds strings.Builder
		for _, f := range r.pipe.Snapshot().Feeds {
			fmt.Fprintf(&feeds, "\n  %s: %s, at %d, %d restarts, %v", f.Name, f.State, f.Position, f.Restarts, f.Err)
		}
		r.breachf(Progress, "the feeds are exhausted, but Run has not returned%s\n%s", &feeds, stagetest.Diagnose(r.pipe.Snapshot()))
	}
}
