package link

import (
	"context"
	"time"
)

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

	// The verbs. They return the number of their entry in the journal, whose
	// author is given first.

	// Pause pauses a stage, or resumes it.
	Pause(who, stage string, on bool) (uint64, error)
	// Drain drains stages, or all if none is given, and Reopen reopens them.
	Drain(ctx context.Context, who string, stages []string) (uint64, error)
	Reopen(who string, stages []string) (uint64, error)
	// Resize bounds the workers of a stage or a group, Rate the commands that a
	// stage or the pipeline admits, and Capacity a queue.
	Resize(who, name string, fewest, most int) (uint64, error)
	Rate(who, stage string, perSecond float64, burst int) (uint64, error)
	Capacity(who, stage string, slots int) (uint64, error)
	// Policy replaces the policies, a []controller.Policy, for a time.
	Policy(who string, policies any, d time.Duration) (uint64, error)
	// Retry retries a letter of a *pipeline.Letters, and calls ended when its
	// command has ended with all that was emitted on its way, with its error.
	Retry(ctx context.Context, store any, id uint64, ended func(error)) error
	// Decode reads a command of a stage from JSON, or as the stage's codec
	// writes it.
	Decode(stage string, text []byte) (cmd any, err error)
	// Note adds an entry to the journal.
	Note(who, what, stage string, before, after any, why string) uint64
}

// Traits are properties of a stage that do not change.
type Traits struct {
	Name  string
	Takes string // the type of its commands
	Group string // that declares it; empty if none does
	Keyed bool
	KeyOf func(cmd any) (key any, keyed bool) // calls the user's function
}

// Busy is a worker at a batch of commands.
type Busy struct {
	Stage string
	For   time.Duration // how long it has been at the batch
}

// Operate returns a *pipeline.Pipeline as its operator sees it. Package pipeline
// sets it, so that a pipeline has no methods for it.
var Operate func(pipeline any) Operated
