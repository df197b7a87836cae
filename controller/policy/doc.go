// Package policy holds the laws by which a pipeline adapts itself.
//
// A policy is a value: write it down and hand it to pipeline.Control before the
// start. The zero value of each has its stated defaults.
//
//	policy.Backlog{}                // as many workers as drain the queue in a tenth of a second: the default
//	policy.Batching{}               // the smallest batch that gets as much done as a large one
//	policy.Cohort{}                 // shared workers go up the stages and down again
//	policy.Color{}                  // shared workers take what came first
//	policy.DBR{}                    // shared workers look after the slowest stage first
//	policy.ERLDA{}                  // one worker more, one worker less, by the length of the queue
//	policy.ERLDA{Up: 50, Samples: 3}
//	policy.Fixed{}                  // constant pools
//	policy.LRB{}                    // shared workers go where the work arrives
//	policy.MG1{}                    // the same, by the root of how busy each stage is
//	policy.SEDA{}                   // one more by the length of the queue, one less by idleness
//	policy.SEDA{Preset: policy.Cruz}
//	policy.SRPT{}                   // shared workers finish what is nearest to its end
//	policy.Stealing{Workers: 12}    // a constant number for all, moved to where the work is
//
// [ByName] finds a policy by its name, for flags and configuration files: "seda",
// "seda:cruz". docs/policies.md has them all in one table.
//
// A [Preset] is a policy as a known system had it, for comparison: it gives what
// that system did, and what it did badly too. The default is the one to use.
//
// # Promise
//
// A policy never asks for a worker outside of a stage's bounds, never remembers
// more than the stages that it sees, and gives a reason with its numbers for all that it
// wants. It is deterministic: the same snapshots give the same decisions.
//
// # Order and ownership
//
// A policy is never changed and may be shared; its controllers have a memory, belong
// to one run each and are called serially. See package controller.
//
// # Testing
//
// No policy starts a goroutine, reads a clock or holds a lock, so a test writes
// snapshots down and looks at the answers; an hour takes no time. A policy of
// your own is a type with the three methods of [controller.Policy].
//
// # A new policy here
//
// A file with its paper named at the top, a line in [ByName], a table test with a
// fixed vector, and the properties in properties_test.go, or, if it shares workers, in
// visits_test.go. One that orders visits is a router (visits.go): it draws plans, and
// gathering the stages and knowing when to draw is done for it.
package policy
