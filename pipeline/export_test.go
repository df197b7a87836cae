package pipeline

import "github.com/golda-dev/golda/worker"

// Forsake gives up whoever has something in hand in a halted room, as a hard stop does when its grace is over: for tests,
// at once, so that it comes at any instant of a worker's life.
func (p *Pipeline) Forsake() {
	for _, r := range p.roster().all {
		worker.Forsake(r)
	}
}
