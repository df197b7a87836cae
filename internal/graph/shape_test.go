package graph

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// drawn returns the edges of a graph of stages with names of one letter. An edge is written "ab", a back edge "ba!".
func drawn(stages int, words string) []edges {
	all := make([]edges, stages)
	for w := range strings.FieldsSeq(words) {
		from, to := int(w[0]-'a'), int(w[1]-'a')
		i, _ := all[from].find(to)
		all[from] = slices.Insert(all[from], i, edge{to: to, back: strings.HasSuffix(w, "!")})
	}
	return all
}

// letters returns the names of stages.
func letters(stages []int) string {
	names := make([]byte, len(stages))
	for i, at := range stages {
		names[i] = 'a' + byte(at)
	}
	return string(names)
}

func TestAShapeHasRanksAndLoops(t *testing.T) {
	for name, row := range map[string]struct {
		edges string
		shape string // of each stage: its rank, a * if it is in a loop, and where its forward edges lead
		order string // the components
	}{
		"a line":               {"ab bc cd", "0b 1c 2d 3", "a b c d"},
		"a line, backwards":    {"dc cb ba", "3 2a 1b 0c", "d c b a"},
		"alone":                {"", "0 0 0 0", "a b c d"},
		"a diamond":            {"ab ac bd cd", "0bc 1d 1d 2", "a b c d"},
		"a short cut":          {"ad ab bc cd", "0bd 1c 2d 3", "a b c d"},
		"to itself":            {"ab bb! bc cd", "0b 1*c 2d 3", "a b c d"},
		"a loop":               {"ab bc cb! cd", "0b 1*c 2*d 3", "a bc d"},
		"two loops with a way": {"ab ba! bc cd dc!", "0*b 1*c 2*d 3*", "ab cd"},
		"a loop around all":    {"ab bc cd da!", "0*b 1*c 2*d 3*", "abcd"},
	} {
		t.Run(name, func(t *testing.T) {
			all := drawn(4, row.edges)
			s := newShape(all)
			var got []string
			for i := range all {
				word := strconv.Itoa(s.Rank[i])
				if s.Cyclic[i] {
					word += "*"
				}
				got = append(got, word+letters(s.Next(i)))
			}
			require.Equal(t, row.shape, strings.Join(got, " "))

			var order []string
			for _, part := range (&Graph{edges: all}).Order() {
				slices.Sort(part)
				order = append(order, letters(part))
			}
			require.Equal(t, row.order, strings.Join(order, " "))
		})
	}
}
