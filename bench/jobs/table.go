package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rows returns the table of figures: medians of the rounds, with the least and
// the most.
func (s *suite) rows() [][]string {
	all := [][]string{{
		"system", "added a second", "done a second", "an urgent one waits: median", "longest", "all done in the backlog",
		"all done, with kills", "done twice", "lost",
	}}
	for _, one := range s.systems {
		of := s.samples[one.name]
		if len(of) == 0 {
			continue
		}
		row := []string{one.name}
		add := func(figure func(sample) float64, write func(float64) string) {
			row = append(row, spread(of, figure, write))
		}
		add(func(m sample) float64 { return m.addedRate }, whole)
		add(func(m sample) float64 { return m.doneRate }, whole)
		add(func(m sample) float64 { return float64(part50(m.waits)) }, milliseconds)
		add(func(m sample) float64 { return float64(slices.Max(append([]time.Duration{0}, m.waits...))) }, milliseconds)
		add(func(m sample) float64 { return float64(m.backlog) }, seconds)
		add(func(m sample) float64 { return float64(m.killed) }, seconds)
		add(func(m sample) float64 { return float64(m.twice) }, whole)
		lost := sum(of, func(m sample) int { return m.lost })
		cell := strconv.Itoa(lost)
		if waiting := sum(of, func(m sample) int { return m.waiting }); waiting > 0 {
			cell += fmt.Sprintf(", and %d not done yet", waiting)
		}
		all = append(all, append(row, cell))
	}
	return all
}

func sum(of []sample, figure func(sample) int) (total int) {
	for _, m := range of {
		total += figure(m)
	}
	return total
}

// spread writes a median, and the least and the most if there are several.
func spread(of []sample, figure func(sample) float64, write func(float64) string) string {
	all := make([]float64, len(of))
	for k, m := range of {
		all[k] = figure(m)
	}
	slices.Sort(all)
	text := write((all[(len(all)-1)/2] + all[len(all)/2]) / 2)
	least, most := write(all[0]), write(all[len(all)-1])
	if least == most {
		return text
	}
	return fmt.Sprintf("%s (%s–%s)", text, least, most)
}

func whole(x float64) string {
	text := strconv.FormatFloat(x, 'f', 0, 64)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func milliseconds(x float64) string { return fmt.Sprintf("%.0f ms", x/1e6) }
func seconds(x float64) string      { return fmt.Sprintf("%.1f s", x/1e9) }

// text is the table for a terminal.
func (s *suite) text() string {
	rows := s.rows()
	var b strings.Builder
	for _, row := range rows {
		for k, cell := range row {
			width := 0
			for _, other := range rows {
				width = max(width, len([]rune(other[k])))
			}
			b.WriteString(cell + strings.Repeat(" ", width-len([]rune(cell))))
			if k < len(row)-1 {
				b.WriteString("  ")
			}
		}
		b.WriteByte('\n')
	}
	return b.String() + s.method() + "\n"
}

// method names the sizes of the run, the machine and the time.
func (s *suite) method() string {
	durable := "synced once a second or less"
	if s.sync {
		durable = "each write synced"
	}
	return fmt.Sprintf("%d rounds, %d jobs (half of them in the parts with slow jobs and with kills), %d at once, %d kills, %s; %s, %d processors, %s, started %s.",
		s.rounds, s.jobs, s.atOnce, s.kills, durable, processor(), runtime.GOMAXPROCS(0), runtime.Version(), s.begin.UTC().Format("2006-01-02 15:04 UTC"))
}

// markdown is the table for the page.
func (s *suite) markdown() string {
	var b strings.Builder
	rows := s.rows()
	for k, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if k == 0 {
			fmt.Fprintf(&b, "|---%s|\n", strings.Repeat("|---:", len(row)-1))
		}
	}
	return b.String() + "\n" + s.method() + "\n"
}

// figures finds the place of the figures in a page.
func figures(synced bool) (begin, end string, place *regexp.Regexp) {
	name := "figures"
	if synced {
		name = "figures, synced"
	}
	begin, end = "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	return begin, end, regexp.MustCompile("(?s)" + regexp.QuoteMeta(begin) + ".*" + regexp.QuoteMeta(end))
}

// writeReport replaces the figures of a page.
func (s *suite) writeReport(page string) error {
	text, err := os.ReadFile(page) //nolint:gosec // the user named it
	if err != nil {
		return err
	}
	begin, end, place := figures(s.sync)
	if !place.Match(text) {
		return fmt.Errorf("%s has no %q", page, strings.TrimSpace(begin))
	}
	text = place.ReplaceAllLiteral(text, []byte(begin+"\n"+s.markdown()+"\n"+end))
	return os.WriteFile(page, text, 0o644) //nolint:gosec // a page for all
}

// processor returns the name of the machine's processor.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // an empty name replaces an error
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimLeft(strings.TrimSpace(name), ": \t")
		}
	}
	return runtime.GOARCH
}
