package pipeline

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/source"
)

// fed is a part that feeds a stage.
type fed struct {
	name    string
	stage   Part         // the part that was given as the stage
	core    *engine.Core // the stage
	problem string       // with the stage; empty if there is none
	refused string       // why the source is refused; empty if it is not
	carried bool         // the commands come from other processes
	saves   bool         // the source is known to have a checkpoint
	stands  string       // why the feed would stand still if the source had one; empty if it would not
	bound   feed.Bound   // of the source, if it is known
	// standsFor returns why the feed would stand still if the source had that
	// bound; empty if it would not.
	standsFor func(feed.Bound) string
	run       func(ctx context.Context, to submitter) error
}

// submitter takes the commands of a source.
type submitter interface {
	submit(load any) error
	// submitFree submits as many of n commands as the stage has free slots for,
	// and returns how many. Next returns the position after a command.
	submitFree(n int, load func(i int) any, next func(i int) int64) int
}

// Part makes a feed a part of a pipeline.
func (*fed) Part(part.Seal) {}

// Feed makes a source submit its commands to a stage of the pipeline. The stage
// need not be given to [New] again. The source is a function, or one that
// package source makes: of a sequence, a channel, lines, files, a schedule.
//
//	pipeline.Feed("lines", parse, source.Lines(file, 0))
//	pipeline.Feed("jobs", work, func(ctx context.Context, submit func(Job) error) error { ... })
//
// The source runs in a goroutine of its own, from when all stages take commands
// until it is exhausted or the pipeline stops. A stop ends the sources first:
// it ends their contexts and waits for them, at most the [Grace], and then
// drains. A source that does not return is abandoned, and named in
// [StopError]'s Left. Submit waits while the stage is full. It also waits while
// the stage is drained or refuses commands because of a rate or another limit,
// instead of returning the error. After the end of the feed it returns an error
// that is [source.ErrEnded].
//
// If the source returns an error, panics or ends its goroutine, it is run
// again, and continues where it was if it uses its position: see package
// source. The pauses before that grow from 100 ms to 10 s. After ten such
// restarts within five minutes, or at an error of [source.Fatal], the feed
// gives up, and the pipeline with it as if a stage gave up: it stops hard, and
// Run returns a [*supervisor.EscalationError] that names the feed.
//
// When all feeds of the pipeline are exhausted, [Pipeline.Run] drains the
// pipeline, without a time limit until its context ends, stops it, and returns
// nil: [Ending] is Exhausted. Commands that were submitted in other ways are
// drained as well; after the last feed is exhausted no more of them are
// accepted. If [Pipeline.Reopen] reopens some stages meanwhile, Run drains
// again; if it reopens all of them, the pipeline runs until its context ends.
// So does a pipeline with a feed that never ends, or without feeds.
// [Pipeline.Start] alone never stops a pipeline.
//
// [Pipeline.Add] adds a feed together with its stage, or to a stage that is
// there. [Pipeline.Remove] stops the feeds of the stage that it removes.
// [Pipeline.Snapshot] has the state of each feed.
func Feed[C any](name string, stage behaviour.Target[C], src source.Source[C]) Part {
	f := &fed{name: name}
	if engine.IsNil(stage) || stage.Inlet() == nil {
		f.problem = "the stage is nil"
		return f
	}
	if err := feed.Check(src); err != nil {
		f.refused = err.Error()
	} else {
		f.saves = feed.Marked(src)
		f.bound = feed.BoundOf(src, func(ctx context.Context) { _ = src(ctx, nil) })
		inlet := stage.Inlet()
		f.run = func(ctx context.Context, to submitter) error {
			one := func(cmd C) error { return to.submit(link.Load(inlet, &cmd)) }
			some := func(cmds []C, next func(i int) int64) int {
				return to.submitFree(len(cmds), func(i int) any { return link.Load(inlet, &cmds[i]) }, next)
			}
			return src(feed.WithSome(ctx, one, some), one)
		}
	}
	if f.core = engine.CoreOf(stage); f.core == nil {
		f.problem = fmt.Sprintf("%T is not a stage", stage)
		return f
	}
	f.stage, _ = stage.(Part)
	return f
}

// FeedSnapshot is the state of a [Feed]. Unlike the accounts of stages it is
// not of the same instant as the rest.
type FeedSnapshot struct {
	Name  string
	Stage string // that it feeds
	// State is "waiting" before the start, "running", "away" while the source
	// says so (source.SetAway), "restarting" in a pause after a failure,
	// "exhausted", "stopped" or "gave up".
	State     string
	Submitted uint64 // commands that were accepted
	Refused   uint64 // commands for which submit returned an error to the source
	Restarts  uint64 // of the source
	Position  int64  // of the source: commands that were accepted, or what the source counts, such as bytes
	Total     int64  // the position of the end, 0 if it is not known
	// Checkpoint is the position up to which all commands have ended, or which
	// the pipeline's [Checkpoint] has saved. It is 0 without either, and until
	// the source runs.
	Checkpoint int64
	Err        error // the last failure, of the source or of saving a checkpoint, or why it is away; nil if there was none
}
