package jobs

import "time"

// State is where a job is.
type State string

// The states of a job.
const (
	Delayed  State = "delayed"   // it waits for its time
	Pending  State = "pending"   // it waits in the queue, and was not delivered
	InFlight State = "in flight" // it was delivered: a process handles it, or it waits for another delivery
	Dead     State = "dead"      // it is a dead letter
)

// Filter chooses jobs. Its zero value chooses all.
type Filter struct {
	State   State  // empty means any
	ID, Key string // of the Spec; empty means any
	Type    string // of the command, as its codec names it; empty means any
	Lane    string // empty means any
	After   string // the Place of a job: only jobs after it, as on the next page
	Limit   int    // how many jobs at most; 0 means no limit
}

// Has reports whether the filter chooses a job, without After and Limit.
func (f Filter) Has(j Job) bool {
	is := func(want, has string) bool { return want == "" || want == has }
	return is(string(f.State), string(j.State)) && is(f.ID, j.ID) && is(f.Key, j.Key) && is(f.Type, j.Type) && is(f.Lane, j.Lane)
}

// Job is a job that an inlet has, as it was when it was read.
type Job struct {
	Info

	State     State
	Type      string // of the command, as its codec names it
	Version   int    // of the type
	Data      []byte // the command, as its codec wrote it
	Published time.Time
	Lane      string // of an inlet with Options.Lanes
	Sequence  uint64 // in the stream in which it is
	Place     string // in the list of all jobs, for Filter.After
}
