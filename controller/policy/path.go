package policy

import "github.com/golda-dev/golda/controller"

// paths finds the path through a pipeline on which commands take longest. The
// zero paths is ready, and keeps its memory from call to call.
type paths struct {
	sums []float64
	done []bool
}

// longest returns the largest sum of a number over the stages of a path.
func (p *paths) longest(s *controller.Snapshot, of func(*controller.StageStats) float64) (most float64) {
	p.sums = append(p.sums[:0], make([]float64, len(s.Stages))...)
	p.done = append(p.done[:0], make([]bool, len(s.Stages))...)
	for i := range s.Stages {
		most = max(most, p.from(s, i, of))
	}
	return most
}

// from returns the sum over the longest path that begins at a stage.
func (p *paths) from(s *controller.Snapshot, i int, of func(*controller.StageStats) float64) float64 {
	if p.done[i] {
		return p.sums[i]
	}
	p.done[i] = true // a path that comes back here ends here
	ahead := 0.0
	for _, next := range s.Stages[i].Next {
		if next >= 0 && int(next) < len(s.Stages) {
			ahead = max(ahead, p.from(s, int(next), of))
		}
	}
	p.sums[i] = of(&s.Stages[i]) + ahead
	return p.sums[i]
}
