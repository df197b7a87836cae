package lab

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed report.html
var page string

// WriteHTML writes the report as one page that needs nothing else: no script,
// and no file from a network. Its plots are drawings in the page. Candidates
// differ by shape and dash as well as by colour.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("report").Parse(page)
	if err != nil {
		return fault(true, "the page: %w", err)
	}
	rows, names := []row{}, []string{}
	for i := range r.Outcomes {
		names = append(names, r.Outcomes[i].Candidate)
	}
	for _, d := range definitions() {
		if cells := r.cells(d); cells != nil {
			rows = append(rows, row{d.name, d.unit, d.about, cells})
		}
	}
	err = t.Execute(w, map[string]any{
		"Report": r, "Conditions": r.conditions(), "Names": names, "Rows": rows, "Plots": r.plots(),
		"Width": plotWidth, "Height": plotHeight, "Left": left, "Right": right, "Top": top, "Bottom": bottom,
	})
	if err != nil {
		return fault(true, "the page: %w", err)
	}
	return nil
}

// row is a figure of all candidates.
type row struct {
	Name, Unit, About string
	Cells             []cell
}

// cell is a figure of one candidate.
type cell struct{ Middle, Interval string }

// cells returns a figure of each candidate, or nil if they do not have it.
func (r *Report) cells(d definition) (cells []cell) {
	for i := range r.Outcomes {
		f, ok := r.Outcomes[i].figure(d.name)
		if !ok {
			return nil
		}
		cells = append(cells, cell{f.text(f.Median), f.interval()})
	}
	return cells
}
