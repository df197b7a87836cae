// Package policy contains the laws by which a pipeline adapts itself to its
// load.
//
// A policy is a value: pass it to pipeline.Control before the start. The zero
// value of each policy has documented defaults.
//
//	policy.Backlog{}                // as many workers as drain the queue in a tenth of a second: the default
//	policy.Batching{}               // the smallest batch that gets as much done as a large one
//	policy.CoDel{}                  // drops commands that have waited for too long, while a queue stands
//	policy.Cohort{}                 // shared workers go up the stages and down again
//	policy.Color{}                  // shared workers take the oldest work first
//	policy.DBR{}                    // shared workers serve the slowest stage first
//	policy.DS2{}                    // the workers for the measured rates, of all stages in one step
//	policy.ERLDA{}                  // one worker more, one worker less, by the length of the queue
//	policy.ERLDA{Up: 50, Samples: 3}
//	policy.Fixed{}                  // constant pools
//	policy.Hill{}                   // the number of workers with which a blocking stage gets most done
//	policy.InFlight{Within: time.Second} // no more commands in the pipeline than it answers in that time
//	policy.Limit{}                  // no more calls under way than a dependency bears
//	policy.LRB{}                    // shared workers visit stages as often as work arrives
//	policy.MG1{}                    // the same, by the square root of how busy each stage is
//	policy.Objective{Within: time.Second} // the aim instead of a law: answers 99 of 100 commands in that time
//	policy.RT90{Target: time.Second} // admits as many commands as are answered in time
//	policy.SEDA{}                   // one more by the length of the queue, one less by idleness
//	policy.SEDA{Preset: policy.Cruz}
//	policy.Shed{}                   // refuses the least important commands under overload
//	policy.SRPT{}                   // shared workers finish first the commands with the least work left
//	policy.Stealing{Workers: 12}    // a constant number for all, moved to where the work is
//
// [CoDel], [InFlight], [Limit], [RT90] and [Shed] are for overload: they change
// no workers, and go with a policy that does.
//
// [ByName] finds a policy by its name, for flags and configuration files:
// "seda", "seda:cruz". docs/policies.md lists all policies in one table.
//
// A [Preset] is a policy as a known system implemented it, for comparison: it
// repeats the behaviour of that system, including its mistakes. Use the
// default.
//
// # Promise
//
// A policy never asks for a number of workers outside a stage's bounds, never
// remembers more than the stages that it sees, and gives each decision a reason
// with numbers. It is deterministic: the same snapshots give the same
// decisions.
//
// # Order and ownership
//
// A policy is never changed and may be shared. Each of its controllers has a
// memory, belongs to one run and is called serially. See package controller.
//
// # Testing
//
// No policy starts a goroutine, reads a clock or holds a lock, so a test writes
// down snapshots and checks the decisions; an hour takes no time. A custom
// policy is a type with the three methods of [controller.Policy].
//
// # A new policy here
//
// Add a file with the paper named at its top, a line in [ByName], a table test
// with a fixed vector, and the properties in properties_test.go, or in
// visits_test.go if the policy shares workers. A policy that orders visits is a
// router (visits.go): it draws plans; the code around it gathers the stages and
// decides when to draw.
package policy
