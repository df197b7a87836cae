package link

import "time"

// Operated is a pipeline as its operator sees it: what package pipeline/operate
// and the dashboard need beyond the methods of a pipeline.
type Operated interface {
	// Began returns the zero of the pipeline's clock: the times of its journal
	// count from there.
	Began() time.Time
	// Traits returns the stages, in the order of a snapshot.
	Traits() []Traits
	// Busy returns the workers that are at a batch, the longest first.
	Busy() []Busy
}

// Traits are properties of a stage that do not change.
type Traits struct {
	Name  string
	Takes string // the type of its commands
	Group string // that declares it; empty if none does
	Keyed bool
}

// Busy is a worker at a batch of commands.
type Busy struct {
	Stage string
	For   time.Duration // how long it has been at the batch
}

// Operate returns a *pipeline.Pipeline as its operator sees it. Package pipeline
// sets it, so that a pipeline has no methods for it.
var Operate func(pipeline any) Operated
