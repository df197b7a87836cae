package lab

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Workload is when the requests of a run are sent. The load is open: a request
// is sent at its time, whether or not the requests before it have been
// answered. The zero Workload is an error.
type Workload struct {
	name   string
	phases func(r *rand.Rand, length time.Duration) []phase // of a Poisson process
	times  []time.Duration                                  // of a trace
	length time.Duration                                    // of a trace
	most   float64                                          // the highest rate, if the phases are random
	err    error
}

// phase is a part of a run with a constant rate.
type phase struct {
	until time.Duration
	rate  float64 // requests a second
	burst bool
}

// Bounds of a workload.
const (
	mostRate     = 1e6
	mostRequests = 5_000_000 // of a run
)

// Poisson is a load without memory: requests come at random, with that many a
// second on average.
func Poisson(rate float64) Workload {
	return Workload{
		name:   fmt.Sprintf("Poisson(%v/s)", rate),
		err:    checkRates("Poisson", rate),
		phases: func(_ *rand.Rand, length time.Duration) []phase { return []phase{{until: length, rate: rate}} },
	}
}

// Burst is a Poisson load of one rate, with another rate between two times: an
// overload, and the time after it. A peak of 0 is a gap.
func Burst(rate, peak float64, from, until time.Duration) Workload {
	return Workload{
		name: fmt.Sprintf("Burst(%v/s, %v/s from %v to %v)", rate, peak, from, until),
		err: errors.Join(checkRates("Burst", rate, peak),
			fault(from < 0 || until <= from, "Burst from %v to %v: it must begin at 0 or later, and end after that", from, until)),
		phases: func(_ *rand.Rand, length time.Duration) []phase {
			all := []phase{{until: from, rate: rate}, {until: until, rate: peak, burst: true}, {until: length, rate: rate}}
			for i := range all {
				all[i].until = min(all[i].until, length)
			}
			return all
		},
	}
}

// OnOff is a Poisson load that changes between two rates at random (a
// Markov-modulated Poisson process): it has the rate off for as long as
// offTime on average, then the rate on for as long as onTime on average, and
// so on. Each of these times is exponential.
func OnOff(off, on float64, offTime, onTime time.Duration) Workload {
	return Workload{
		name: fmt.Sprintf("OnOff(%v/s for %v, %v/s for %v)", off, offTime, on, onTime),
		most: max(off, on),
		err: errors.Join(checkRates("OnOff", off, on),
			fault(min(offTime, onTime) < 10*time.Millisecond, "OnOff with times of %v and %v: they must be 10 ms or more", offTime, onTime)),
		phases: func(r *rand.Rand, length time.Duration) (all []phase) {
			for at, burst := time.Duration(0), false; at < length; burst = !burst {
				rate, mean := off, offTime
				if burst {
					rate, mean = on, onTime
				}
				at += time.Duration(r.ExpFloat64() * float64(mean))
				all = append(all, phase{until: min(at, length), rate: rate, burst: burst})
			}
			return all
		},
	}
}

// Trace sends requests at times that were recorded, counted from the start of a
// run. Each run has the same times, and Experiment.Length may be left out: then
// a run ends with the last request.
func Trace(times ...time.Duration) Workload {
	w := Workload{name: fmt.Sprintf("Trace(%d requests)", len(times)), times: slices.Sorted(slices.Values(times))}
	if len(times) == 0 {
		w.err = fault(true, "the Trace has no times")
		return w
	}
	w.length = w.times[len(times)-1] + 1
	w.err = errors.Join(fault(w.times[0] < 0, "the Trace has a negative time, %v", w.times[0]),
		fault(len(times) > mostRequests, "the Trace has %d times, and at most %d are possible", len(times), mostRequests))
	return w
}

// TraceFile is a [Trace] with the times of a file, one a line: seconds since
// the start, such as 0.25, or a duration, such as 250ms. Empty lines and lines
// that begin with # are skipped. A fault of the file is the error of
// [Workload.Times] and of [Compare].
func TraceFile(name string) Workload {
	times, err := readTimes(name)
	w := Trace(times...)
	w.name = fmt.Sprintf("TraceFile(%s, %d requests)", name, len(times))
	if err != nil {
		w.err = err
	} else if len(times) == 0 {
		w.err = fault(true, "the trace file %s has no times", name)
	}
	return w
}

func readTimes(name string) (times []time.Duration, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("lab: trace file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at, err := parseTime(line)
		if err != nil {
			return nil, fault(true, "%s:%d: %q is no time: write seconds, such as 0.25, or a duration, such as 250ms", name, n, line)
		}
		if times = append(times, at); len(times) > mostRequests {
			return nil, fault(true, "%s has more than %d times", name, mostRequests)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("lab: trace file %s: %w", name, err)
	}
	return times, nil
}

func parseTime(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err == nil && !(math.Abs(seconds) <= mostLength.Seconds()) {
		err = strconv.ErrRange
	}
	return time.Duration(seconds * 1e9), err
}

// String returns the workload with its parameters.
func (w Workload) String() string {
	if w.name == "" {
		return "no workload"
	}
	return w.name
}

// Times returns the times at which a run of that length sends its requests, in
// order. The same seed gives the same times.
func (w Workload) Times(seed uint64, length time.Duration) ([]time.Duration, error) {
	if err := w.check(length); err != nil {
		return nil, err
	}
	times, _ := w.schedule(seed, length)
	return times, nil
}

// check returns the faults of the workload.
func (w Workload) check(length time.Duration) error {
	switch {
	case w.err != nil:
		return w.err
	case w.name == "":
		return fault(true, "Workload is missing: Poisson, Burst, OnOff, Trace or TraceFile makes one")
	case length <= 0:
		return fault(true, "the workload %s has a length of %v, and sends nothing", w, length)
	case w.times != nil:
		return fault(w.times[0] >= length, "the first time of the %s is %v, and a run ends at %v", w, w.times[0], length)
	}
	expected := w.most * length.Seconds()
	if w.most == 0 {
		for p, from := range w.spans(0, length) {
			expected += p.rate * (p.until - from).Seconds()
		}
	}
	return fault(expected > mostRequests, "the workload %s may have %.0f requests in %v, and at most %d are possible", w, expected, length, mostRequests)
}

// spans iterates over the phases of a run, each with its start.
func (w Workload) spans(seed uint64, length time.Duration) func(yield func(phase, time.Duration) bool) {
	return func(yield func(phase, time.Duration) bool) {
		from := time.Duration(0)
		for _, p := range w.phases(rand.New(rand.NewPCG(seed, streamOfPhases)), length) { //nolint:gosec // a seed must give the same load again
			if p.until > from && !yield(p, from) {
				return
			}
			from = max(from, p.until)
		}
	}
}

// The streams of random numbers of a run.
const (
	streamOfPhases = iota + 1
	streamOfTimes
	streamOfRequests
)

// span is a part of a run.
type span struct{ from, until time.Duration }

// schedule returns the times of a run, and its bursts. In a phase the time to
// the next request is exponential. What is left of it at the end of a phase is
// drawn anew, since an exponential time has no memory.
func (w Workload) schedule(seed uint64, length time.Duration) (times []time.Duration, bursts []span) {
	if w.times != nil {
		n, _ := slices.BinarySearch(w.times, length)
		return slices.Clone(w.times[:n]), nil
	}
	r := rand.New(rand.NewPCG(seed, streamOfTimes)) //nolint:gosec // a seed must give the same load again
	for p, from := range w.spans(seed, length) {
		if p.burst {
			bursts = append(bursts, span{from, p.until})
		}
		for at := float64(from); p.rate > 0; {
			at += r.ExpFloat64() / p.rate * 1e9
			if at >= float64(p.until) {
				break
			}
			times = append(times, time.Duration(at))
		}
	}
	return times, bursts
}

func checkRates(name string, rates ...float64) error {
	for _, rate := range rates {
		if !(rate >= 0 && rate <= mostRate) {
			return fault(true, "%s with a rate of %v: it must be from 0 to %.0f requests a second", name, rate, float64(mostRate))
		}
	}
	return fault(slices.Max(rates) == 0, "%s with a rate of 0 sends nothing", name)
}
