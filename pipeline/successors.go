package pipeline

import "slices"

// Successors returns the stages that commands go to from each stage, by their names: those that its ports and flows lead to, and those
// that its handlers have forwarded or emitted to by now. A stage without any is left out.
func (p *Pipeline) Successors() map[string][]string {
	name := map[int]string{}
	for _, c := range p.stages().stages {
		name[c.Inbox().Place] = c.Name()
	}
	to := map[string][]string{}
	for _, e := range p.graph.Edges() {
		if from, next := name[e.From], name[e.To]; from != "" && next != "" && !slices.Contains(to[from], next) {
			to[from] = append(to[from], next)
		}
	}
	return to
}
