package lab

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The names of the figures.
const (
	throughput    = "throughput"
	goodput       = "goodput"
	burstGoodput  = "burst goodput"
	goodShare     = "good"
	inTime        = "in time"
	refusedShare  = "refused"
	droppedShare  = "dropped"
	failedShare   = "failed"
	p50           = "p50"
	p99           = "p99"
	p999          = "p99.9"
	longest       = "max"
	inVain        = "in vain"
	recovery      = "recovery"
	workerSeconds = "worker-seconds"
	cpuSeconds    = "CPU-seconds"
	otherLoad     = "other load"
	fairness      = "fairness"
	decisions     = "decisions"
	mostInside    = "most in flight"
)

// definition describes a figure.
type definition struct {
	name, unit string
	digits     int    // after the point
	better     sense  // which of two values is better
	judged     bool   // the report says which candidate is ahead
	about      string // the description for readers of the report
}

type sense int8

const (
	neither sense = iota
	more
	less
)

// definitions lists the figures in the order of the report.
func definitions() []definition {
	return []definition{
		{throughput, "/s", 0, more, false, "answers a second"},
		{goodput, "/s", 0, more, true, "answers within the deadline a second"},
		{burstGoodput, "/s", 0, more, true, "answers within the deadline a second, during the bursts: compare it with the capacity"},
		{goodShare, "%", 1, more, false, "requests that were answered within the deadline"},
		{inTime, "%", 1, more, true, "answers that came within the deadline, of all answers"},
		{refusedShare, "%", 1, less, false, "requests that were refused, since there was too much to do; the dropped ones are in it"},
		{droppedShare, "%", 1, less, false, "requests that were admitted, and dropped when they had waited for too long or for others"},
		{failedShare, "%", 1, less, false, "requests that failed"},
		{p50, "ms", 2, less, true, "half of the answers took no longer"},
		{p99, "ms", 2, less, true, "99 of 100 answers took no longer"},
		{p999, "ms", 2, less, false, "999 of 1000 answers took no longer"},
		{longest, "ms", 1, less, false, "the longest answer"},
		{inVain, "ms", 1, less, false, "99 of 100 requests that were refused, were dropped or have failed took no longer"},
		{recovery, "s", 2, less, true, "from the end of a burst until the p99 is low again, the longest of the bursts of a run"},
		{workerSeconds, "", 1, less, true, "live workers of all stages and pools, integrated over the measured time"},
		{cpuSeconds, "", 3, less, true, "CPU time of the process, the generator included"},
		{otherLoad, "%", 0, neither, false, "CPUs that other processes of the machine used: the more, the less a figure says"},
		{fairness, "", 3, more, true, "Jain's index over the shares of good answers of the classes: 1 if all have the same"},
		{decisions, "/min", 0, neither, false, "changes that the policy made"},
		{mostInside, "", 0, less, false, "the most commands in the pipeline at once"},
	}
}

// Figure is one number of a candidate: the median of its runs, and an interval
// of order statistics that holds it. See [Report.Coverage].
//
// A time is infinite if it never came: no answer for a latency, no recovery.
// In JSON that is null.
type Figure struct {
	Name              string
	Unit              string
	Median, Low, High float64

	definition definition
}

// newFigure returns a figure of the values of some runs, and false if it does
// not apply to any of them. Whether it applies depends on the requests of a run
// alone, so it is the same for all candidates.
func newFigure(d definition, values []float64) (Figure, bool) {
	values = slices.DeleteFunc(values, math.IsNaN)
	f := Figure{Name: d.name, Unit: d.unit, definition: d}
	f.Median, f.Low, f.High, _ = interval(values)
	return f, len(values) > 0
}

// String returns the median and the interval, such as "12.3 [11.0 to 14.1]".
func (f Figure) String() string {
	return strings.TrimSpace(f.text(f.Median) + " " + f.interval())
}

// interval returns the interval, or nothing if both ends look like the median.
func (f Figure) interval() string {
	low, high := f.text(f.Low), f.text(f.High)
	if median := f.text(f.Median); low == median && high == median {
		return ""
	}
	return fmt.Sprintf("[%s to %s]", low, high)
}

// text returns a value with the digits of the figure.
func (f Figure) text(v float64) string {
	if math.IsInf(v, 0) {
		return "never"
	}
	return strconv.FormatFloat(v, 'f', f.definition.digits, 64)
}

// figureJSON is a figure as JSON has it.
type figureJSON struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit,omitempty"`
	Median *float64 `json:"median"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
}

// MarshalJSON writes null for an infinite time, which JSON does not have.
func (f Figure) MarshalJSON() ([]byte, error) {
	number := func(v float64) *float64 {
		if math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	return json.Marshal(figureJSON{f.Name, f.Unit, number(f.Median), number(f.Low), number(f.High)})
}

// UnmarshalJSON reads a figure that was marshalled.
func (f *Figure) UnmarshalJSON(text []byte) error {
	var read figureJSON
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	number := func(v *float64) float64 {
		if v == nil {
			return math.Inf(1)
		}
		return *v
	}
	*f = Figure{Name: read.Name, Unit: read.Unit, Median: number(read.Median), Low: number(read.Low), High: number(read.High)}
	for _, d := range definitions() {
		if d.name == f.Name {
			f.definition = d
		}
	}
	return nil
}
