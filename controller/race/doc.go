// Package race finds out which policy suits a pipeline, by its own load: it
// replays what the pipeline did in virtual time under other policies, ranks
// them by an [Aim], and says which one to switch to, and the gain to expect.
//
// A [Recorder] writes the arrivals and the times of handlers to a file, which
// [Read] reads. [Run] gives them to a model of package simulator, so all that
// its documentation says of models holds: nothing but handlers takes time there.
package race
