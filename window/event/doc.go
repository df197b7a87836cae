// Package event makes stages that collect commands in windows of event time: of
// a time that is within the command, whenever the command arrives. A window's
// result is an aggregate of the commands of a key.
//
//	perMinute := event.Tumbling("per minute", time.Minute,
//		event.Sum(Hit.Time, Hit.Host, Count.Plus), event.Watermark[Hit]{Disorder: 30 * time.Second})
//	p, err := pipeline.New("log", parse.To(perMinute), perMinute.To(report))
//
//	[Tumbling]  windows of a length, one behind the other: each minute
//	[Sliding]   windows of a length that overlap: the last hour, each minute
//	[Session]   windows that a pause ends: a visit
//
// Package window has windows by the clock's time.
//
// # Watermarks
//
// Commands need not arrive in the order of their times. The watermark is the
// time up to which the stage counts on having all commands: the latest time in
// a command so far, less Watermark.Disorder. It never falls. A window [Start,
// End) is passed on when the watermark has reached its End. So results do not
// depend on the order of arrival, as long as no command arrives after commands
// whose times are later by more than Disorder.
//
// With Watermark.Source each source has a watermark of its own, and the stage
// has the least of them: a source that is behind keeps windows open. A source
// counts from its first command on. With Watermark.ByKey each key has its own.
// A source, or a key, that is idle for long does not hold windows up for ever:
// see Watermark.Idle.
//
// A time that is far ahead, as of a clock that is wrong, moves the watermark
// there, and makes other commands late. Filter such commands out before.
//
// # Late commands
//
// A command is late if all windows that it belongs to are over: the watermark
// has passed End by Watermark.Lateness or more. It goes to Watermark.Late, or
// is counted in Watermark.Dropped, or else fails with [ErrLate], so that it
// leaves a letter.
//
// With a Lateness a window stays for that long after it was passed on. A
// command that arrives meanwhile has it passed on again, with all its commands
// and the next Pane. So the next stage replaces by Key and Start, or adds up, if
// Watermark.Discard is set.
//
// # What happens to commands
//
// A window has a stage of its own for its results, which has the name with
// " windows" behind it, and which options do not concern. In it a command waits
// for each open window, which the first command of the window has emitted: it
// is suspended there, without a worker, and takes some 6 KB. All other commands
// leave at once, and cost what they add to the aggregate.
//
// All commands of a window end with its result, as in package window. A caller
// that waits for any of them, a source that hears of their ends, and a
// source.Checkpoint wait until the result has ended, and get its error. A
// sliding window's command ends when the results of all its windows have. A
// Call gets no result. The result has the context values of the first command
// of the window. It does not end with the context or the deadline of a caller.
//
// In a drain, and so at the end of the input, open windows are passed on when
// no further command can come, in the order of their ends, and the watermark is
// at the last of these ends afterwards. In a hard stop they are passed on, too,
// and results that the next stage no longer handles are dead letters there.
//
// With pipeline.Checkpoint the windows and the watermark are saved together
// with the positions of the feeds, so after a kill the next process has the
// same results. Without it, as behind an inlet, windows and watermark are those
// of the process: after a kill the commands that had not ended come again, and a
// window that was passed on in parts has its further commands in a window of the
// next process. Then use Discard, and let the next stage add up.
//
// A source that waits for the ends of its commands, because it may have no more
// in flight, has all open windows passed on after a second, with Early. A
// Disorder or a window that is long against MaxInFlight needs pipeline.Checkpoint.
//
// # Functions
//
// The functions for the time and the key, add and merge are called for
// each command by one worker, one after the other. They must be quick and not
// call the pipeline. If one panics, the command has crashed, alone, and its
// windows stay as they were; so add and merge must not change data
// that the aggregates point to. A middleware (stage.Middleware) must
// not fail a command after next has returned: its windows have it.
//
// # Memory
//
// A window is forgotten when it was passed on, and its Lateness is over. A key
// is forgotten with its last window; with ByKey, when it has been idle, too.
// Watermark.Held is how many windows there are at most.
package event
