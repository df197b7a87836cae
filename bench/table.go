package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table is the results of one work as rounded text: for the terminal and for
// the page of figures.
type table struct {
	title string
	head  []string
	rows  [][]string
	notes []string
}

// table returns the table of a work, the best first.
func (s *suite) table(w work) table {
	all := s.of(w)
	slices.SortStableFunc(all, func(a, b *result) int {
		switch x, y := a.figure(), b.figure(); {
		case x < y:
			return -1
		case x > y:
			return 1
		default:
			return 0
		}
	})
	t := table{title: fmt.Sprintf("%s: %s", w.name, w.title), head: s.head(w)}
	for _, r := range all {
		t.rows = append(t.rows, s.cells(r))
	}
	t.notes = s.absent(w)
	return t
}

// head returns the names of the columns.
func (s *suite) head(w work) []string {
	switch w.name {
	case "W6":
		return []string{"implementation", "answered", "of", "share", "process", "loss on a crash"}
	case "W7":
		return []string{"implementation", w.unit, "min-max", "/ golda", "/ chan", "goroutines per stage", "bytes before the first command"}
	case "W5", "W15":
		return []string{
			"implementation", "p50 µs", "min-max", "/ golda", "/ chan", "p99 µs", "p50 once sent", "p99 once sent",
			"CPU ns per command", "allocs per command", "bound", "order",
		}
	default:
		return []string{"implementation", w.unit, "min-max", "/ golda", "/ chan", "CPU ns per command", "allocs per hop", "bound", "order"}
	}
}

func (s *suite) cells(r *result) []string {
	switch r.work.name {
	case "W6":
		return []string{
			r.impl.name, strconv.Itoa(r.answered()), strconv.Itoa(r.commands()), percent(1 - r.figure()), fate(r), r.impl.promise.crash,
		}
	case "W7":
		return append(s.compared(r, 1), number(r.median(goroutinesPerStage)),
			number(r.median(freshBytes)))
	case "W5", "W15":
		return append(s.compared(r, 1000), number(r.median(p99)/1000),
			number(r.median(sentP50)/1000), number(r.median(sentP99)/1000), number(r.median(cpuPerCommand)),
			number(r.row().AllocsPerHop*3), r.impl.promise.bound, r.impl.promise.order)
	default:
		return append(s.compared(r, 1), number(r.median(cpuPerCommand)), number(r.row().AllocsPerHop),
			r.impl.promise.bound, r.impl.promise.order)
	}
}

// compared returns the first cells of most tables: the figure, its span, its
// ratio to Golda's figure and its ratio to the figure of channels.
func (s *suite) compared(r *result, unit float64) []string {
	least, most := r.span()
	return []string{
		r.impl.name, number(r.figure() / unit), number(least/unit) + "-" + number(most/unit),
		s.ratio(r, golda.name), s.ratio(r, channel.name),
	}
}

// ratio returns the ratio of medians to another implementation at the same
// work.
func (s *suite) ratio(r *result, to string) string {
	other := s.find(r.work.name, to)
	if other == nil || other.figure() == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", r.figure()/other.figure())
}

// find returns the result of an implementation at a work, or nil if there is
// none.
func (s *suite) find(work, impl string) *result {
	i := slices.IndexFunc(s.results, func(r *result) bool { return r.work.name == work && r.impl.name == impl })
	if i < 0 || len(s.results[i].samples) == 0 {
		return nil
	}
	return s.results[i]
}

func fate(r *result) string {
	if r.died() != "" {
		return "dies"
	}
	return "continues"
}

// absent returns notes that name the implementations that take no part, and
// why.
func (s *suite) absent(w work) (notes []string) {
	var reasons []string
	names := map[string][]string{}
	for _, i := range s.impls {
		why, ok := w.takes(i)
		if ok || i.only != nil {
			continue
		}
		if names[why] == nil {
			reasons = append(reasons, why)
		}
		names[why] = append(names[why], i.name)
	}
	for _, why := range reasons {
		notes = append(notes, fmt.Sprintf("without %s: %s", strings.Join(names[why], ", "), why))
	}
	return notes
}

// print prints the tables, the targets, and the guarantees of the
// implementations.
func (s *suite) print(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", s.method())
	for _, one := range s.works {
		s.table(one).text(&out)
	}
	if t := s.targetTable(); len(t.rows) > 0 {
		t.text(&out)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// text formats the table for a terminal: the first column and text to the left,
// numbers to the right.
func (t table) text(w *strings.Builder) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n\n", t.title)
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range append([][]string{t.head}, t.rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if t.numeric(i) {
				line.WriteString("  " + pad + cell)
			} else {
				line.WriteString("  " + cell + pad)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
	for _, note := range t.notes {
		fmt.Fprintf(w, "  (%s)\n", note)
	}
}

// numeric reports whether a column holds numbers.
func (t table) numeric(column int) bool {
	for _, row := range t.rows {
		if cell := row[column]; cell != "-" && (cell == "" || cell[0] < '0' || cell[0] > '9' || strings.Contains(cell, " ")) {
			return false
		}
	}
	return true
}

// number formats a figure with as many digits as are significant.
func number(x float64) string {
	switch size := math.Abs(x); {
	case size == 0 || size < 0.005:
		return "0"
	case size < 10:
		return fmt.Sprintf("%.2f", x)
	case size < 100:
		return fmt.Sprintf("%.1f", x)
	default:
		return grouped(int64(math.Round(x)))
	}
}

// grouped formats a number with a comma before each third digit.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }
