package tables

import (
	"fmt"
	"math"
	"slices"
)

// relation is how a figure compares with another one.
type relation string

const (
	below relation = "below"
	equal relation = "equal"
	above relation = "above"
)

// margin is how far apart two figures are that are not equal, as a share.
const margin = 0.05

// values are the values of a figure in some runs, or one value.
type values []float64

// median returns the median, or NaN if there are no values.
func (v values) median() float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// against returns the relation of two figures. They are equal if their medians
// are within the margin, or if runs of one are on both sides of runs of the
// other.
func (v values) against(w values) relation {
	a, b := v.median(), w.median()
	low, high := slices.Max(v) < slices.Min(w), slices.Min(v) > slices.Max(w)
	switch {
	case a < (1-margin)*b && low:
		return below
	case a > (1+margin)*b && high:
		return above
	default:
		return equal
	}
}

// side is where figures come from: the dissertation, the model, or Golda.
type side func(t *table, r *row, figure string) values

// reportedBy returns the figures of the dissertation.
func reportedBy(_ *table, r *row, figure string) values { return values{r.Reported[figure]} }

// verdict is whether something that the dissertation says is so elsewhere.
type verdict string

const (
	yes     verdict = "yes"
	no      verdict = "no"
	unknown verdict = "–"
)

// holds judges a claim by the figures of a side. A claim about several rows
// holds if it does for all; without the figures of one it is not known, unless
// others refute it.
func (b *book) holds(c claim, of side) verdict {
	t := b.table(c.Table)
	known := true
	for _, l := range c.Left {
		for _, r := range c.Right {
			left, right := of(t, t.row(l), c.Figure), of(t, t.row(r), c.Figure)
			switch {
			case len(left) == 0 || len(right) == 0:
				known = false
			case left.against(right) != c.Op:
				return no
			}
		}
	}
	if !known {
		return unknown
	}
	return yes
}

// rowClaim says how the reported figure of a row compares with the reference
// row's. It is empty for the reference.
func (t *table) rowClaim(r *row) string {
	if r.ID == t.Reference {
		return ""
	}
	mine, other := values{r.Reported[t.Judged]}, values{t.row(t.Reference).Reported[t.Judged]}
	reference := t.row(t.Reference).Policy
	words := map[relation]string{below: "shorter than", above: "longer than"}
	if t.Better == "more" {
		words = map[relation]string{below: "fewer than", above: "more than"}
	}
	rel := mine.against(other)
	if rel == equal {
		return "as " + reference
	}
	return fmt.Sprintf("%.0f %% %s %s", 100*math.Abs(mine[0]/other[0]-1), words[rel], reference)
}

// rowHolds judges the claim of a row.
func (t *table) rowHolds(r *row, of side) verdict {
	if r.ID == t.Reference {
		return unknown
	}
	reference := t.row(t.Reference)
	mine, other := of(t, r, t.Judged), of(t, reference, t.Judged)
	if len(mine) == 0 || len(other) == 0 {
		return unknown
	}
	if mine.against(other) == reportedBy(t, r, t.Judged).against(reportedBy(t, reference, t.Judged)) {
		return yes
	}
	return no
}
