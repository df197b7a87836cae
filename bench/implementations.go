package main

import (
	"slices"
	"strings"
)

// implementation is one way to run a line of stages.
type implementation struct {
	name     string
	what     string // a short description
	promise  promise
	pointers func(shape[*parcel]) (line[*parcel], error)
	blocks   func(shape[block]) (line[block], error) // a kilobyte by value
	boxes    func(shape[*block]) (line[*block], error)
	logs     func() (logProgram, error) // W13; nil: it takes no part
	service  service                    // W15; nil: it takes no part
	only     []string                   // the works that it takes part in; nil: all
	not      map[string]string          // works that it takes no part in, and why
}

// promise has the guarantees of an implementation in the form that is used
// here.
type promise struct {
	bound string // on the commands that wait
	order string // of commands, through a stage with one worker and through one with several
	// crash is how a command ends whose handler panics, and the effect on other
	// commands.
	crash string
}

// takes reports whether the implementation takes part in a work, or why not.
func (i implementation) takes(work string) (why string, ok bool) {
	if i.only != nil && !slices.Contains(i.only, work) {
		return "only " + strings.Join(i.only, ", "), false
	}
	why, no := i.not[work]
	return why, !no
}

// implementations returns all implementations, Golda first.
func implementations() []implementation {
	return []implementation{
		golda, goldaBatch, goldaFlows, goldaRegistered, goldaMetrics, goldaMetricsOften, direct, directAll, channel, channelBatch,
		protoactor, watermillGoChannel, pondPools, antsPools, concStreams,
	}
}

// implementationNamed returns the implementation of a name.
func implementationNamed(name string) (implementation, bool) {
	all := implementations()
	i := slices.IndexFunc(all, func(i implementation) bool { return i.name == name })
	if i < 0 {
		return implementation{}, false
	}
	return all[i], true
}

// implementationNames returns the names of all implementations.
func implementationNames() []string {
	all := implementations()
	names := make([]string, len(all))
	for k, i := range all {
		names[k] = i.name
	}
	return names
}

// The promises of several implementations.
const (
	nothingWaits = "nothing waits"
	oneWorker    = "kept with one worker"
	processDies  = "the process dies"
)

// noStages is why plain calls do not take part in works that need stages.
const noStages = "a call is not a stage"
