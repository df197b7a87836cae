package lab

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// columns is how many candidates are side by side in a table.
const columns = 4

// String returns the report as a table for a terminal: a row for each figure, a
// column for each candidate, and the verdicts.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n\n", r.Title, r.conditions())
	for from := 0; from < len(r.Outcomes); from += columns {
		table(&b, r.Outcomes[from:min(from+columns, len(r.Outcomes))])
		b.WriteByte('\n')
	}
	for _, v := range slices.Concat(r.missing(), r.Verdicts) {
		b.WriteString(v + "\n")
	}
	return b.String()
}

// conditions says under which conditions the figures were measured.
func (r *Report) conditions() string {
	text := fmt.Sprintf("%s, %d runs of %v each, the first %v not measured; deadline %v; seed %d.\n", r.Workload, r.Runs, r.Length, r.Warmup, r.Deadline, r.Seed)
	if r.Repeated > 0 {
		text += fmt.Sprintf("%d runs were measured again, because the generator was late.\n", r.Repeated)
	}
	text += fmt.Sprintf("The generator: %s.\n", r.late())
	if r.Runs > 1 {
		text += fmt.Sprintf("Median of the runs, and the interval that holds it with %.1f %%. ", 100*r.Coverage)
	}
	return text + fmt.Sprintf("Latencies count from when a request should have been sent.\n%s.", r.Machine)
}

// late says how late the generator was, in the run in which it was latest.
func (r *Report) late() string {
	var late time.Duration
	for _, o := range r.Outcomes {
		for _, run := range o.Runs {
			late = max(late, run.Late)
		}
	}
	return fmt.Sprintf("99 of 100 requests of each run were sent at most %v late", late.Round(time.Microsecond))
}

// table writes some candidates side by side.
func table(b *strings.Builder, outcomes []Outcome) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, o := range outcomes {
		_, _ = fmt.Fprint(w, "\t", o.Candidate)
	}
	_, _ = fmt.Fprintln(w)
	for _, row := range rows(outcomes) {
		_, _ = fmt.Fprint(w, row.Name)
		for _, c := range row.Cells {
			_, _ = fmt.Fprint(w, "\t", strings.TrimSpace(c.Middle+" "+c.Interval))
		}
		_, _ = fmt.Fprintln(w)
	}
	_ = w.Flush() // a strings.Builder takes everything
}

// row is a figure of some candidates.
type row struct {
	Name  string // with the unit
	About string
	Cells []cell
}

// cell is a figure of one candidate.
type cell struct{ Middle, Interval string }

// rows returns the figures of some candidates, and below each the simulated
// one.
func rows(outcomes []Outcome) (all []row) {
	for _, d := range definitions() {
		name := strings.TrimSpace(d.name + " " + d.unit)
		add := func(name, about string, figures func(o Outcome) []Figure) {
			r, found := row{Name: name, About: about}, false
			for _, o := range outcomes {
				f, ok := find(figures(o), d.name)
				c := cell{Middle: "–"}
				if ok {
					c = cell{f.text(f.Median), f.interval()}
				}
				found = found || ok
				r.Cells = append(r.Cells, c)
			}
			if found {
				all = append(all, r)
			}
		}
		add(name, d.about, func(o Outcome) []Figure { return o.Figures })
		add(name+", simulated", "the same in virtual time, of the model", func(o Outcome) []Figure { return o.Simulated })
	}
	return all
}

// missing says which candidates were not simulated, and why.
func (r *Report) missing() (all []string) {
	for _, o := range r.Outcomes {
		if o.NotSimulated != "" {
			all = append(all, fmt.Sprintf("%s was not simulated: %s.", o.Candidate, strings.TrimPrefix(o.NotSimulated, "simulator: ")))
		}
	}
	return all
}
