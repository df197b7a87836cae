package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// negligible is the difference of two medians that is none, as a share of the
// smaller one.
const negligible = 0.05

// differ reports whether two figures differ beyond noise: their intervals do
// not overlap, and their medians are not nearly the same.
func differ(a, b Figure) bool {
	if a.Low <= b.High && b.Low <= a.High {
		return false
	}
	low, high := min(a.Median, b.Median), max(a.Median, b.Median)
	return high-low > negligible*math.Abs(low)
}

// verdicts says for each important figure which candidates differ, and how
// that was judged.
func verdicts(outcomes []Outcome, runs int) (all []string) {
	if len(outcomes) < 2 {
		return []string{"There is one candidate, so nothing was compared."}
	}
	if runs < 2 {
		return []string{"There is one run of each candidate, so nothing is known about noise, and no difference is claimed."}
	}
	found := false
	for _, d := range definitions() {
		if !d.judged {
			continue
		}
		if text, differs := verdict(d, outcomes); text != "" {
			all = append(all, text)
			found = found || differs
		}
	}
	if !found {
		all = append([]string{"Null result: no candidate differs from another one beyond noise, in anything below."}, all...)
	}
	likely := percent(byChance(runs))
	if rankOf(runs) > 1 {
		likely = "less than 1"
	}
	return append(all, fmt.Sprintf("Two candidates differ beyond noise if their intervals do not overlap and their medians are more than %.0f %% apart. "+
		"With %d runs of each, the intervals of two equal candidates do not overlap in %s of 100 comparisons of one figure.", 100*negligible, runs, likely))
}

// percent returns a share as a percentage with one digit that is not zero.
func percent(share float64) string {
	if share >= 0.01 {
		return fmt.Sprintf("%.0f", 100*share)
	}
	return fmt.Sprintf("%.1g", 100*share)
}

// verdict says which candidates differ in one figure. It is empty if fewer than
// two have the figure.
func verdict(d definition, outcomes []Outcome) (text string, differs bool) {
	type entry struct {
		name string
		Figure
	}
	var all []entry
	for i := range outcomes {
		if f, ok := outcomes[i].figure(d.name); ok {
			all = append(all, entry{outcomes[i].Candidate, f})
		}
	}
	if len(all) < 2 {
		return "", false
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		if d.better == more {
			a, b = b, a
		}
		return cmp.Compare(a.Median, b.Median)
	})
	for i, best := range all {
		var behind, level []string
		for j, other := range all {
			switch {
			case i == j:
			case j > i && differ(best.Figure, other.Figure):
				behind = append(behind, other.name+" ("+d.value(other.Median)+")")
			case !differ(best.Figure, other.Figure):
				level = append(level, other.name+" ("+d.value(other.Median)+")")
			}
		}
		if len(behind) == 0 {
			continue
		}
		text = fmt.Sprintf("%s: %s (%s) is ahead of %s beyond noise", d.name, best.name, d.value(best.Median), list(behind))
		if len(level) > 0 {
			text += ", and does not differ from " + list(level)
		}
		return text + ".", true
	}
	if first, last := d.value(all[0].Median), d.value(all[len(all)-1].Median); first != last {
		return fmt.Sprintf("%s: nothing differs beyond noise (medians from %s to %s).", d.name, first, last), false
	}
	return fmt.Sprintf("%s: nothing differs (%s).", d.name, d.value(all[0].Median)), false
}

// value returns a value with its unit.
func (d definition) value(v float64) string {
	text := Figure{definition: d}.text(v)
	switch {
	case math.IsInf(v, 0) || d.unit == "":
		return text
	case strings.HasPrefix(d.unit, "/"):
		return text + d.unit
	default:
		return text + " " + d.unit
	}
}

// list joins names as a sentence does.
func list(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
