package main

import (
	"slices"
	"strings"
	"time"
)

// work is one benchmark for all implementations.
type work struct {
	name  string
	title string
	unit  string // of the figure
	hops  int    // stages that a command passes
	turns int    // turns of the rivals in each round; 0 is 1
	// figure is the number by which implementations are compared: less is
	// better.
	figure func(sample) float64
	run    func(implementation, order) (sample, error)
}

// order describes one measurement.
type order struct {
	Work   string `json:"work"`
	Impl   string `json:"impl"`
	Spin   int    `json:"spin"`   // rounds of W3's work
	Moment bool   `json:"moment"` // only to check that it runs
	// Profile is where the measuring process writes its CPU profile; empty:
	// nowhere.
	Profile string `json:"profile,omitempty"`
}

// commands returns n, or few for a moment.
func (o order) commands(n int) int {
	if o.Moment {
		return max(min(n, 200), n/100)
	}
	return n
}

// time returns the minimum duration of a measurement.
func (o order) time() time.Duration {
	switch {
	case o.Moment:
		return 0
	case o.Profile != "":
		return 5 * time.Second // a profile takes a hundred samples a second
	case strings.HasPrefix(o.Impl, golda.name) && slices.Contains(goldaMetrics.only, o.Work):
		return time.Second // so that it includes a scrape of one per second
	case o.Impl == golda.name || o.Impl == channel.name:
		return 500 * time.Millisecond // they are compared most
	default:
		return 300 * time.Millisecond
	}
}

const (
	nsPerHop     = "ns per hop"
	nsPerCommand = "ns per command"
)

func perHop(s sample) float64 { return s.NsPerHop }

// perCommand returns the time per command of a work with several hops.
func perCommand(hops int) func(sample) float64 {
	return func(s sample) float64 { return s.NsPerHop * float64(hops) }
}

// works returns all works.
func works() []work {
	return []work{
		{"W1", "five stages that do nothing, one worker each", nsPerHop, 5, 4, perHop, flowOf(plainSteps(5, 1), 20_000)},
		{"W2", "five stages that do nothing, four workers each", nsPerHop, 5, 2, perHop, flowOf(plainSteps(5, 4), 20_000)},
		{"W3", "five stages of about 2 µs of CPU, one worker each", nsPerCommand, 5, 2, perCommand(5), flowOf(spinSteps, 20_000)},
		{"W4", "one stage that sleeps 5 ms, 64 workers", nsPerCommand, 1, 4, perHop, flowOf(sleepSteps, 5_120)},
		{"W5", "requests at 10,000 a second through three stages", "ns, median, from the intended time", 3, 4, median50, openLoop},
		{"W6", "one command in a hundred panics in the second of three stages", "share without an answer", 3, 0, unanswered, crashes},
		{"W7", "10,000 idle stages", "bytes per stage", idleStages, 0, func(s sample) float64 { return s.BytesPerStage }, idle},
		{"W8", "one stage, four side by side, one stage", nsPerHop, 3, 0, perHop, flowOf(fanSteps, 20_000)},
		{"W9p", "five stages that do nothing, one worker each; a kilobyte by pointer", nsPerHop, 5, 0, perHop, boxFlow},
		{"W9v", "five stages that do nothing, one worker each; a kilobyte by value", nsPerHop, 5, 0, perHop, blockFlow},
		{"W10", "the image pipeline: decode, five filters, encode", nsPerCommand, 7, 0, perCommand(7), photoFlow},
		{"W11", "calls, one after another, of one stage that answers with the command", "ns per call", 1, 4, perHop, calls},
		{"W12", "as W1, but 500 stages", nsPerHop, deepStages, 0, perHop, flowOf(plainSteps(deepStages, 1), 10_000)},
		{"W13", "a log of a million lines: split, enrich, add up by host in order", "ns per line", 1, 2, perHop, logs},
		{"W14", "one stage of four workers, to which 64 goroutines submit", nsPerHop, 1, 2, perHop, crowd},
		{"W15", "a service: 2,000 HTTP requests a second, through three stages of about 20 µs of CPU", "ns, median, from the intended time", 3, 4, median50, serve},
	}
}

func median50(s sample) float64 { return s.P50 }

func unanswered(s sample) float64 { return 1 - float64(s.Answered)/float64(max(1, s.Commands)) }

// workNamed returns the work of a name.
func workNamed(name string) (work, bool) {
	all := works()
	i := slices.IndexFunc(all, func(w work) bool { return w.name == name })
	if i < 0 {
		return work{}, false
	}
	return all[i], true
}

// deepOnly are the implementations that take part in W12: the hops of the
// others are so expensive that each would take a minute without a new insight.
var deepOnly = []string{"golda", "direct", "direct-all", "chan", "chanbatch", "protoactor"}

// crowdOnly are the implementations that take part in W14.
var crowdOnly = []string{"golda", "chan", "protoactor"}

// takes reports whether an implementation takes part, or why not.
func (w work) takes(i implementation) (why string, ok bool) {
	if why, ok = i.takes(w.name); !ok {
		return why, false
	}
	switch {
	case w.name == "W12" && !slices.Contains(deepOnly, i.name):
		return "it would take minutes", false
	case w.name == "W13" && i.logs == nil:
		return "the program is written for Golda and by hand only", false
	case w.name == "W15" && i.service == nil:
		return "the service is written for Golda and plain calls only", false
	case w.name == "W14" && !slices.Contains(crowdOnly, i.name):
		return "a line takes commands of one goroutine", false
	}
	return "", true
}
