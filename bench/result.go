package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// result is the results of all rounds of one implementation at one work.
type result struct {
	work     work
	impl     implementation
	samples  []sample
	failures []error // of the rounds that have no sample
}

// each returns one figure of all rounds, sorted.
func (r *result) each(of func(sample) float64) []float64 {
	values := make([]float64, len(r.samples))
	for i, s := range r.samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values
}

// median returns the median of a figure over the rounds. For an even number it
// is the mean of the two middle values, because the lower one would flatter.
func (r *result) median(of func(sample) float64) float64 { return middle(r.each(of)) }

func middle(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// figure returns the median of the work's figure.
func (r *result) figure() float64 { return r.median(r.work.figure) }

func (r *result) span() (least, most float64) {
	all := r.each(r.work.figure)
	return all[0], all[len(all)-1]
}

// died returns why the process died, if it did in any round.
func (r *result) died() string {
	for _, s := range r.samples {
		if s.Died != "" {
			return s.Died
		}
	}
	return ""
}

func (r *result) commands() int { return r.sum(func(s sample) int { return s.Commands }) }
func (r *result) answered() int { return r.sum(func(s sample) int { return s.Answered }) }

func (r *result) sum(of func(sample) int) (total int) {
	for _, s := range r.samples {
		total += of(s)
	}
	return total
}

// brief returns one measurement as text for the progress output.
func (r *result) brief(s sample) string {
	if r.work.name == "W6" {
		return fmt.Sprintf("%d of %d answered %s", s.Answered, s.Commands, s.Died)
	}
	return number(r.work.figure(s)) + " " + r.work.unit
}

// row is a result as a JSON object. Times are in nanoseconds, and medians over
// the rounds; counts are sums.
type row struct {
	Work               string  `json:"work"`
	Impl               string  `json:"impl"`
	NsPerHop           float64 `json:"ns_per_hop"`
	Min                float64 `json:"min"` // of ns_per_hop
	Max                float64 `json:"max"`
	AllocsPerHop       float64 `json:"allocs_per_hop"`
	BytesPerHop        float64 `json:"bytes_per_hop"`
	CPUPerCommand      float64 `json:"cpu_ns_per_command"`
	Commands           int     `json:"commands"`
	Answered           int     `json:"answered"`
	Hops               int     `json:"hops"`
	Rounds             int     `json:"rounds"`
	P50                float64 `json:"p50_ns,omitempty"`
	P99                float64 `json:"p99_ns,omitempty"`
	SentP50            float64 `json:"sent_p50_ns,omitempty"`
	SentP99            float64 `json:"sent_p99_ns,omitempty"`
	Died               string  `json:"died,omitempty"`
	BytesPerStage      float64 `json:"bytes_per_stage,omitempty"`
	FreshBytesPerStage float64 `json:"fresh_bytes_per_stage,omitempty"`
	GoroutinesPerStage float64 `json:"goroutines_per_stage,omitempty"`
}

func (r *result) row() row {
	times := r.each(perHop)
	return row{
		Work: r.work.name, Impl: r.impl.name,
		NsPerHop: middle(times), Min: times[0], Max: times[len(times)-1],
		AllocsPerHop:  r.median(allocsPerHop),
		BytesPerHop:   r.median(func(s sample) float64 { return s.BytesPerHop }),
		CPUPerCommand: r.median(cpuPerCommand),
		Commands:      r.commands(), Answered: r.answered(), Hops: r.work.hops, Rounds: len(r.samples),
		P50: r.median(median50), P99: r.median(p99), Died: r.died(),
		SentP50: r.median(sentP50), SentP99: r.median(sentP99),
		BytesPerStage:      r.median(func(s sample) float64 { return s.BytesPerStage }),
		FreshBytesPerStage: r.median(freshBytes),
		GoroutinesPerStage: r.median(goroutinesPerStage),
	}
}

func cpuPerCommand(s sample) float64      { return s.CPUPerCommand }
func p99(s sample) float64                { return s.P99 }
func sentP50(s sample) float64            { return s.SentP50 }
func sentP99(s sample) float64            { return s.SentP99 }
func allocsPerHop(s sample) float64       { return s.AllocsPerHop }
func goroutinesPerStage(s sample) float64 { return s.GoroutinesPerStage }

func freshBytes(s sample) float64 { return s.FreshBytesPerStage }

// printJSON prints one object for each result, one a line.
func (s *suite) printJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	for _, r := range s.results {
		if err := out.Encode(r.row()); err != nil {
			return err
		}
	}
	return nil
}
