package tables

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed page.html
var page string

// WriteHTML writes the tables as one page that needs nothing else: no script,
// and no file from a network. Each table of the dissertation has a plot.
func (r *Result) WriteHTML(w io.Writer) error {
	t, err := template.New("tables").Parse(page)
	if err != nil {
		return fmt.Errorf("the page: %w", err)
	}
	type part struct {
		sheet
		Plot *plot
	}
	var parts []part
	for _, s := range r.everything() {
		p := part{sheet: s}
		if t := r.book.table(s.ID); t != nil {
			p.Plot = r.plot(t)
		}
		parts = append(parts, p)
	}
	err = t.Execute(w, map[string]any{
		"Source": r.book.Source, "Theirs": r.book.Machine.About, "Ours": r.machine, "Others": strings.TrimSpace(r.otherLoad()), "Parts": parts, "Missing": r.missing(),
	})
	if err != nil {
		return fmt.Errorf("the page: %w", err)
	}
	return nil
}

// The size of a plot, in pixels.
const (
	plotLeft  = 230
	plotRight = 740
	lineOf    = 30 // a row
)

// plot shows the judged figure of a table, a line for each row.
type plot struct {
	About         string
	Width, Height int
	Ticks         []tick
	Lines         []line
	Bottom        float64
}

type tick struct {
	X    float64
	Text string
}

// line is a row of a plot: a mark for each side, and a bar over its runs.
type line struct {
	Name  string
	Y     float64
	Marks []mark
}

type mark struct {
	Side            string
	X, Y, Low, High float64
}

// plot returns the plot of a table. The times of the images are divided by the
// time of the reference, since ours are of other images.
func (r *Result) plot(t *table) *plot {
	sides := []struct {
		name string
		of   side
	}{{"reported", reportedBy}, {"model", r.model.of}, {"here", r.of}}
	p := &plot{Width: plotRight + 20, About: r.axis(t)}
	scaled := make([][]values, len(sides))
	most := 0.0
	for i, s := range sides {
		for k := range t.Rows {
			v := scaledBy(s.of(t, &t.Rows[k], t.Judged), r.unit(t, s.of))
			scaled[i] = append(scaled[i], v)
			for _, x := range v {
				most = max(most, x)
			}
		}
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	if most/step < 3 {
		step /= 2
	}
	high := math.Ceil(most/step) * step
	x := func(v float64) float64 {
		return math.Round(10*(plotLeft+v/high*(plotRight-plotLeft))) / 10
	}
	for i := 0.0; i*step <= high*(1+1e-9); i++ {
		p.Ticks = append(p.Ticks, tick{x(i * step), fmt.Sprint(math.Round(i*step*1e3) / 1e3)})
	}
	for k := range t.Rows {
		l := line{Name: t.Rows[k].name(), Y: float64(20 + k*lineOf)}
		for i, s := range sides {
			if v := scaled[i][k]; len(v) > 0 {
				least, largest := v[0], v[0]
				for _, one := range v {
					least, largest = min(least, one), max(largest, one)
				}
				l.Marks = append(l.Marks, mark{s.name, x(v.median()), l.Y + float64(i-1)*7, x(least), x(largest)})
			}
		}
		p.Lines = append(p.Lines, l)
	}
	p.Bottom = float64(20 + len(t.Rows)*lineOf - lineOf/2)
	p.Height = int(p.Bottom) + 40
	return p
}

// unit returns the divisor of the values of a side.
func (r *Result) unit(t *table, of side) float64 {
	if len(t.Figures) > 1 {
		return 1
	}
	return of(t, t.row(t.Reference), t.Judged).median()
}

// axis describes the values of a plot.
func (r *Result) axis(t *table) string {
	if len(t.Figures) > 1 {
		return fmt.Sprintf("%s, %s; the bar of a figure here is over its runs", t.Judged, t.Figures[0].Unit)
	}
	return fmt.Sprintf("%s, times that of %s; the bar of a figure here is over its runs", t.Judged, t.row(t.Reference).Policy)
}

// scaledBy returns values in a unit; none without a unit.
func scaledBy(v values, unit float64) (all values) {
	if math.IsNaN(unit) || unit == 0 {
		return nil
	}
	for _, x := range v {
		all = append(all, x/unit)
	}
	return all
}
