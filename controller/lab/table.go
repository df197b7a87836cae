package lab

import (
	"fmt"
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
		r.table(&b, r.Outcomes[from:min(from+columns, len(r.Outcomes))])
		b.WriteByte('\n')
	}
	for _, v := range r.Verdicts {
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
func (r *Report) table(b *strings.Builder, outcomes []Outcome) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	row := func(first string, cells func(o *Outcome) string) {
		_, _ = fmt.Fprint(w, first)
		for i := range outcomes {
			_, _ = fmt.Fprint(w, "\t", cells(&outcomes[i]))
		}
		_, _ = fmt.Fprintln(w)
	}
	row("", func(o *Outcome) string { return o.Candidate })
	for _, d := range definitions() {
		if _, ok := outcomes[0].figure(d.name); !ok {
			continue
		}
		row(strings.TrimSpace(d.name+" "+d.unit), func(o *Outcome) string {
			f, _ := o.figure(d.name)
			return f.String()
		})
	}
	_ = w.Flush() // a strings.Builder takes everything
}
