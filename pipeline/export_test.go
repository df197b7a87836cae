package pipeline

import "github.com/golda-dev/golda/worker"

// Controlled reports whether a [Control] is among the parts.
func Controlled(parts []Part) bool {
	p := plan{}
	p.sort(parts)
	return p.set.controls > 0
}

// AbandonAll abandons the workers that hold commands of halted inboxes, as a hard stop does when its grace is over. Tests call
// it at once, so that it comes at any instant of a worker's life.
func (p *Pipeline) AbandonAll() {
	for _, in := range p.stages().all {
		in.Owner.(*worker.Stage).AbandonAll()
	}
}
