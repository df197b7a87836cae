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
	// Setups returns how the stages were set up, in the order of a snapshot, for
	// a model of the pipeline.
	Setups() []Setup
	// Policies returns the policies of the pipeline's controller, a
	// []controller.Policy, and the names of the groups and stages that have a
	// controller of their own.
	Policies() (policies any, groups []string)
	// Busy returns the workers that are at a batch, the longest first.
	Busy() []Busy
	// Hottest returns the keys of a stage of which most commands wait, the
	// largest number first. With names it calls user code, for the key of the
	// first command of each. Whole reports whether all keys were looked at: of
	// very many it is a part that is chosen by chance.
	Hottest(stage string, most int, names bool) (keys []KeyLoad, whole bool, err error)

	// Timers returns the open windows of a stage, and the next acts of the stage,
	// and of the feeds that lead to it, without a command.
	Timers(stage string) (Timers, error)

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
	// Retry retries a letter of a *letters.Store of package pipeline/letters,
	// and calls ended when its command has ended with all that was emitted on
	// its way, with its error.
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

// Setup is how a stage was set up, by its options and its group.
type Setup struct {
	Name       string
	Capacity   int
	Batch      int
	Instances  int // workers that may be at the stage at once
	TTL        time.Duration
	Refuses    bool    // a full queue refuses or drops commands, and has no caller wait
	PerSecond  float64 // the rate at which commands are started; 0: no bound
	Burst      int
	Attempts   int // of a command, in all
	Pause      time.Duration
	LongestGap time.Duration // between two attempts
	Jitter     float64
	Budget     float64
	Blocking   bool
	Keyed      bool
	// Discipline is the queue.Discipline; nil is first in, first out.
	Discipline any
	// Special says in words which properties the stage has that depend on the
	// commands or on the program.
	Special []string
	// Group is the group that declares the stage, with the bounds of its
	// workers; empty if none does.
	Group        string
	Fewest, Most int
}

// KeyLoad is how many commands of a key wait at a stage.
type KeyLoad struct {
	Hash    uint64 // the same for the same key as long as the process runs
	Name    any    // the key; nil unless it was asked for
	Waiting int
	AtWork  bool // a worker has commands of the key
	Parked  bool // the commands wait for a letter
}

// Busy is a worker at a batch of commands.
type Busy struct {
	Stage string
	For   time.Duration // how long it has been at the batch
}

// Operate returns a *pipeline.Pipeline as its operator sees it. Package pipeline
// sets it, so that a pipeline has no methods for it.
var Operate func(pipeline any) Operated
