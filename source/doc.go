// Package source makes the commands that a pipeline.Feed submits to a stage:
// from a function, a sequence, a channel, the lines of a reader, the names of
// files, or a schedule.
//
//	f, err := os.Open("access.log")
//	...
//	p, err := pipeline.New("log", pipeline.Feed("lines", parse, source.Lines(f, 0)))
//	err = p.Run(ctx) // until all lines have been handled
//
// # A source is a function
//
// A [Source] calls submit with each command. Submit waits while the stage is
// full, so a source needs no rate of its own. It returns nil when it is
// exhausted, an error when it cannot go on, and anything soon after its context
// has ended. Most sources need nothing of this package:
//
//	pipeline.Feed("jobs", work, func(ctx context.Context, submit func(Job) error) error {
//		for {
//			job, err := queue.Next(ctx)
//			if err != nil {
//				return err
//			}
//			if err := submit(job); err != nil {
//				return err
//			}
//		}
//	})
//
// # Positions
//
// A feed knows the position of its source: the number of commands that were
// accepted so far, or the number that the source passes with [From], such as an
// offset in a file. A source that crashed or failed is run again, and continues
// at its [Position]. No command that was accepted before is submitted twice
// then, and none is lost. A function that ignores the position begins anew: it
// should take its commands from something that remembers, such as a queue.
//
// # Checkpoints
//
// A position is where the source is. A checkpoint is how far the pipeline is:
// all commands before it have ended, in whichever order they did. [Checkpoint]
// saves it outside of the process, so that the next process begins there.
//
// # Ownership
//
// A Source belongs to one feed, which runs it in one goroutine at a time. Some
// sources remember input that they have read and not submitted yet, so they
// must not be given to two feeds, nor run again by another.
package source
