package main

import (
	"slices"
	"strings"
)

// implementation is one way to run a line of stages.
type implementation struct {
	name     string
	what     string // in a few words
	promise  promise
	pointers func(shape[*parcel]) (line[*parcel], error)
	blocks   func(shape[block]) (line[block], error) // a kilobyte by value
	boxes    func(shape[*block]) (line[*block], error)
	only     []string          // the works that it takes part in; nil: all
	not      map[string]string // works that it takes no part in, and why
}

// promise is what an implementation guarantees, as it is used here.
type promise struct {
	bound string // on what waits
	order string // of commands, through a stage with one worker and through one with several
	crash string // what becomes of a command whose handler panics, and of others
}

// takes reports whether the implementation takes part in a work, or why not.
func (i implementation) takes(work string) (why string, ok bool) {
	if i.only != nil && !slices.Contains(i.only, work) {
		return "only " + strings.Join(i.only, ", "), false
	}
	why, no := i.not[work]
	return why, !no
}

// implementations are all that there are, the house's own first.
func implementations() []implementation {
	return []implementation{
		golda, goldaBatch, goldaRegistered, goldaMetrics, goldaMetricsOften, direct, directAll, channel, channelBatch,
		protoactor, watermillGoChannel, pondPools, antsPools, concStreams,
	}
}

// implementationNamed finds one.
func implementationNamed(name string) (implementation, bool) {
	all := implementations()
	i := slices.IndexFunc(all, func(i implementation) bool { return i.name == name })
	if i < 0 {
		return implementation{}, false
	}
	return all[i], true
}

// implementationNames lists them.
func implementationNames() []string {
	all := implementations()
	names := make([]string, len(all))
	for k, i := range all {
		names[k] = i.name
	}
	return names
}

// What several promise.
const (
	nothingWaits = "nothing waits"
	oneWorker    = "kept with one worker"
	processDies  = "the process dies"
)

// noStages is why plain calls take no part in what needs stages.
const noStages = "a call is no stage"
