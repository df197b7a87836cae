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
	var names []string
	for _, o := range r.Outcomes {
		names = append(names, o.Candidate)
	}
	err = t.Execute(w, map[string]any{
		"Report": r, "Conditions": r.conditions(), "Names": names, "Rows": rows(r.Outcomes), "Missing": r.missing(), "Plots": r.plots(),
		"Width": plotWidth, "Height": plotHeight, "Left": left, "Right": right, "Top": top, "Bottom": bottom,
	})
	if err != nil {
		return fault(true, "the page: %w", err)
	}
	return nil
}
