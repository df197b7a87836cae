package tables

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// sheet is a table with the figures of all sides, as text.
type sheet struct {
	ID, Title, About string
	Head             []string
	Rows             [][]string
}

// cut is the number of columns of a sheet that depend on the data alone.
const cut = 3

// sheets returns the tables of the result.
func (r *Result) sheets() (all []sheet) {
	for i := range r.book.Tables {
		all = append(all, r.sheet(&r.book.Tables[i]))
	}
	return all
}

// sheet returns one table.
func (r *Result) sheet(t *table) sheet {
	var names []string
	for _, f := range t.Figures {
		names = append(names, f.Name)
	}
	unit := strings.Join(names, " / ") + ", " + t.Figures[0].Unit
	s := sheet{
		ID: t.ID, Title: fmt.Sprintf("Table %s: %s", t.ID, t.Title), About: r.about(t),
		Head: []string{"policy", "threads", "reported: " + unit, "model, 8 CPUs", "Golda here", "claim", "model", "here", "why"},
	}
	s.Head[3] = fmt.Sprintf("model, %d CPUs", r.book.Machine.CPUs)
	for i := range t.Rows {
		row := &t.Rows[i]
		s.Rows = append(s.Rows, []string{
			row.Policy, row.Threads, t.cell(row, reportedBy), t.cell(row, r.model.of), t.cell(row, r.of),
			orDash(t.rowClaim(row)), string(t.rowHolds(row, r.model.of)), string(t.rowHolds(row, r.of)), row.Reason,
		})
	}
	return s
}

func orDash(text string) string {
	if text == "" {
		return string(unknown)
	}
	return text
}

// about says how to read a table.
func (r *Result) about(t *table) string {
	o := r.Options
	if t.ID == "5.1" {
		return fmt.Sprintf("%d images (%s), %s, in seconds here. In brackets: times the single queue. "+
			"The model has eight CPUs, and two figures from the table: the work of an image, from the single queue, and that of its slowest stage, from SEDA with 2 per stage.", o.Images, o.Size, runs(r.runs[0]))
	}
	return fmt.Sprintf("%d requests, %s, in the units of the dissertation: a second here is %.1f s there, by the CPU time of a request. "+
		"The load is %.1f times the capacity, and the client opens no more connections once %.0f %% of the requests are open.",
		o.Requests, runs(r.runs[1]), r.shorter, r.book.Rate/r.book.Capacity, 100*float64(r.book.Connections)/float64(r.book.Requests))
}

// runs says of how many runs a figure is.
func runs(n int) string {
	if n == 1 {
		return "one run of each policy"
	}
	return fmt.Sprintf("the median of %d interleaved runs", n)
}

// cell returns the figures of a row by a side.
func (t *table) cell(r *row, of side) string {
	var parts []string
	for _, f := range t.Figures {
		v := of(t, r, f.ID)
		if len(v) == 0 {
			return string(unknown)
		}
		parts = append(parts, number(v.median()))
	}
	text := strings.Join(parts, " / ")
	if len(t.Figures) == 1 {
		if other := of(t, t.row(t.Reference), t.Judged); len(other) > 0 {
			text += fmt.Sprintf(" (%.2f)", of(t, r, t.Judged).median()/other.median())
		}
	}
	return text
}

// number returns a figure with two digits after the point.
func number(v float64) string {
	if math.IsNaN(v) {
		return string(unknown)
	}
	return fmt.Sprintf("%.2f", v)
}

// claims returns the claims with their verdicts.
func (r *Result) claims() sheet {
	s := sheet{
		ID: "claims", Title: "What the dissertation concludes", Head: []string{"claim", "table", "reported", "model", "Golda here", "why"},
		About: fmt.Sprintf("A figure is above another one if it is more than %.0f %% larger, and every run of it is larger than every run of the other.", 100*margin),
	}
	for _, c := range r.book.Claims {
		s.Rows = append(s.Rows, []string{c.Text, c.Table, string(r.book.holds(c, reportedBy)), string(r.book.holds(c, r.model.of)), string(r.book.holds(c, r.of)), c.Why})
	}
	return s
}

// memory returns the figures of the images that table 5.1 does not have.
func (r *Result) memory() sheet {
	s := sheet{
		ID: "memory", Title: "The images: CPU time and memory", Head: []string{"policy", "threads", "CPU, s", "images alive", "peak memory, MiB"},
		About: "The most images that were decoded at once, and the peak memory of the process. The source lets in a window of images, so no policy has all of them in memory.",
	}
	t := r.book.table("5.1")
	for i := range t.Rows {
		row := &t.Rows[i]
		cells := []string{row.Policy, row.Threads}
		for _, f := range []string{"cpu", "alive", "memory"} {
			cells = append(cells, number(r.of(t, row, f).median()))
		}
		s.Rows = append(s.Rows, cells)
	}
	return s
}

// load returns the load of ERLDA's script.
func (r *Result) load() sheet {
	e := &r.book.ERLDA
	s := sheet{
		ID: "erlda", Title: fmt.Sprintf("ERLDA: %d clients", e.Clients), Head: []string{"server", "answers/s", "p50", "p99", "longest", "other answers", "broken connections", "no answer"},
		About: fmt.Sprintf("%d clients request %s of %d bytes for %v, each on one connection, the next request after the last answer; the clients share the CPUs with the server. The run with the median rate of %d, in turns. %s (%s)",
			e.Clients, e.Path, e.Bytes, r.Options.Load, r.Options.Runs, e.Reported, e.Source),
	}
	for _, l := range r.loads {
		s.Rows = append(s.Rows, []string{
			l.Server, fmt.Sprintf("%.0f", l.Rate), brief(l.P50), brief(l.P99), brief(l.Longest), fmt.Sprint(l.Other), fmt.Sprint(l.Broken), fmt.Sprint(l.Silent),
		})
	}
	if len(r.loads) == 1 {
		s.About += " ERLDA itself was not measured: start it, and give its address with -erlda."
	}
	return s
}

func brief(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

// missing says which rows the simulator cannot do, and why.
func (r *Result) missing() (all []string) {
	for _, row := range r.book.table("5.2").Rows {
		if why, ok := r.model.missing[row.Configuration.Policy]; ok {
			all = append(all, fmt.Sprintf("%s is not in the model: %s.", row.name(), why))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// everything returns all sheets.
func (r *Result) everything() []sheet {
	return append(r.sheets(), r.claims(), r.memory(), r.load())
}

// command returns the command that makes this result.
func (r *Result) command() string {
	if r.Options.Images == r.book.Images {
		return "go run ./examples/lab -tables -full"
	}
	return "go run ./examples/lab -tables"
}

// WriteMarkdown writes docs/tables.md.
func (r *Result) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# The dissertation's tables\n\n")
	fmt.Fprintf(&b, "The tables of %s, with what a model of its machine and Golda give. Do not edit this page: it is written by\n\n```sh\n%s\n```\n\n", r.book.Source, r.command())
	fmt.Fprintf(&b, "The dissertation's machine: %s. Each of its figures is of one run. This machine: %s; it took %s.\n\n", r.book.Machine.About, r.machine, r.took.Round(time.Second))
	b.WriteString("*Claim* is how a row compares with the reference of its table as reported; the columns after it say whether that is so in the model and here.\n")
	if others := r.otherLoad(); others != "" {
		b.WriteString(others + "\n")
	}
	for _, s := range r.everything() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", s.Title, s.About)
		s.markdown(&b)
	}
	if missing := r.missing(); len(missing) > 0 {
		b.WriteString("\n## What the model lacks\n\n")
		for _, m := range missing {
			fmt.Fprintf(&b, "- %s\n", m)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// otherLoad says how much of the machine other processes used.
func (r *Result) otherLoad() string {
	var all values
	for _, o := range r.Web.Outcomes {
		for _, f := range o.Figures {
			if f.Name == "other load" {
				all = append(all, f.Median)
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("\nOther processes used %.0f %% of the CPUs while the web server was measured. Times are without the share of the CPUs that others used.", all.median())
}

// markdown writes the table.
func (s *sheet) markdown(b *strings.Builder) {
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(s.Head)
	line(slices.Repeat([]string{"---"}, len(s.Head)))
	for _, r := range s.Rows {
		line(r)
	}
}

// String returns the tables for a terminal, the reasons below each.
func (r *Result) String() string {
	var b strings.Builder
	for _, s := range r.everything() {
		fmt.Fprintf(&b, "%s\n%s\n\n", s.Title, s.About)
		s.text(&b)
		b.WriteByte('\n')
	}
	for _, m := range r.missing() {
		b.WriteString(m + "\n")
	}
	return b.String()
}

// text writes the table. A last column of reasons is a list below.
func (s *sheet) text(b *strings.Builder) {
	n := len(s.Head)
	if s.Head[n-1] == "why" {
		n--
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{s.Head}, s.Rows...) {
		_, _ = fmt.Fprintln(w, strings.Join(r[:n], "\t"))
	}
	_ = w.Flush() // a strings.Builder takes everything
	if n == len(s.Head) {
		return
	}
	b.WriteByte('\n')
	for _, r := range s.Rows {
		fmt.Fprintf(b, "%s, %s: %s\n", r[0], r[1], r[n])
	}
}

// MarshalJSON returns the tables as they are shown, and the report of lab.
func (r *Result) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"machine": r.machine, "tables": r.everything(), "missing": r.missing(), "web": r.Web})
}
