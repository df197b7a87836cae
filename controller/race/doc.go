// Package race finds out which policy suits a pipeline, by its own load: it
// replays the recorded load in virtual time under other policies, ranks them by
// an [Aim], and says which one to switch to, and the gain to expect.
//
// [Live] does all of it with a pipeline that runs:
//
//	report, err := race.Live(ctx, p, race.Aim{Within: 200 * time.Millisecond})
//	fmt.Println(report.Advice())
//
// For a load of another time, or of another program, a [Recorder] writes the
// arrivals and the times of handlers to a file, which [Recording.ReadFrom]
// reads. [Run] replays it with a model that the caller has made.
//
// The figures come from a model of package simulator, whose documentation says
// how a model differs from a pipeline: nothing but handlers takes time there.
package race
