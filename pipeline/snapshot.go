package pipeline

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage"
)

// Snapshot is the state of a pipeline at one instant: all its accounts were
// read together.
type Snapshot struct {
	Pipeline string
	Policy   string // of the pipeline's controller
	At       time.Time

	Accepted     uint64 // submitted from outside, and emitted by handlers
	Replied      uint64 // ended with a result
	Failed       uint64 // ended with an error
	Shed         uint64 // dropped for want of room
	DeadLettered uint64 // ended without an answer
	InFlight     uint64 // not ended yet

	Stages []stage.Snapshot // in the order in which they were given to New
	Pools  []Pool           // those that stages share, or have shared
}

// Pool is the state of a pool of workers that stages share. Its counts only grow.
type Pool struct {
	Name     string
	Policy   string   // of the group's own controller; empty if the pipeline's governs it
	Stages   []string // those that are bound to it now
	Dispatch controller.Dispatch
	Plan     string // the visit plan in words, if it is polled
	Workers  int    // there now: Busy and Idle
	Busy     int    // at a stage, and run a handler there or are about to
	Idle     int    // the others
	Most     int    // the most there ever were

	Rounds      uint64 // how often a worker ended a round: visited the last place of the plan
	Visits      uint64 // of workers to stages
	EmptyVisits uint64 // those that found nothing to do
}

func poolOf(p *engine.Pool, stages []stage.Snapshot) Pool {
	sp := p.Shared()
	if sp == nil {
		return Pool{}
	}
	sheet := sp.Accounts()
	pool := Pool{
		Name: sp.Name(), Dispatch: sp.Dispatch(), Workers: sheet.Live, Most: sheet.Most,
		Rounds: sheet.Rounds, Visits: sheet.Visits, EmptyVisits: sheet.Empties,
	}
	if pool.Dispatch == controller.Polled {
		pool.Plan = sp.Plan().String()
	}
	for _, st := range stages {
		if st.Pool == pool.Name {
			pool.Stages = append(pool.Stages, st.Name)
			pool.Busy += st.Busy
		}
	}
	pool.Idle = max(pool.Workers-pool.Busy, 0)
	return pool
}

// Balanced reports whether the law holds, for the pipeline and for each stage.
func (s Snapshot) Balanced() bool {
	for _, st := range s.Stages {
		if !st.Balanced() {
			return false
		}
	}
	return s.Accepted == s.Replied+s.Failed+s.Shed+s.DeadLettered+s.InFlight
}

// Law writes the law out, with its numbers.
func (s Snapshot) Law() string {
	return fmt.Sprintf("accepted %d = replied %d + failed %d + shed %d + dead-lettered %d + in flight %d",
		s.Accepted, s.Replied, s.Failed, s.Shed, s.DeadLettered, s.InFlight)
}

// Snapshot reads all accounts at one instant. It may be called at any time.
func (p *Pipeline) Snapshot() Snapshot {
	r, sheets := p.readAccounts(inbox.Snapshot)
	s := Snapshot{Pipeline: p.name, Policy: p.control.PolicyNames(""), At: time.Now()}
	for i := range sheets {
		sheet := &sheets[i]
		s.Accepted += sheet.Submitted + sheet.Emitted
		s.Replied += sheet.OK
		s.Failed += sheet.Errors
		s.Shed += inbox.Sum(sheet.Shed)
		s.DeadLettered += inbox.Sum(sheet.Dead)
	}
	s.Stages = make([]stage.Snapshot, 0, len(r.stages))
	for i, c := range r.stages {
		s.Stages = append(s.Stages, c.Snapshot(*r.of(sheets, i)).(stage.Snapshot))
	}
	p.pools.Each(func(pool *engine.Pool) {
		of := poolOf(pool, s.Stages)
		if hasGroup(p.groups, of.Name) {
			of.Policy = p.control.PolicyNames(of.Name)
		}
		s.Pools = append(s.Pools, of)
	})
	s.InFlight = inFlight(sheets)
	return s
}

// inFlight counts what has not ended. What has left one inbox and not yet come
// to the next, or the other way round for a moment, is the difference of what
// was sent and what was received.
func inFlight(sheets []inbox.Accounts) uint64 {
	var n int64
	for _, s := range sheets {
		n += int64(s.Queued + s.InHand + s.Delayed)
		n += int64(s.Forwarded+s.Emitted) - int64(s.Received)
	}
	return uint64(n)
}

// underWay reports whether a command has left one inbox and not come to the next.
func underWay(sheets []inbox.Accounts) bool {
	var n int64
	for _, s := range sheets {
		n += int64(s.Forwarded+s.Emitted) - int64(s.Received)
	}
	return n != 0
}

// load adds up what is in all inboxes, one after the other.
func (p *Pipeline) load() (n int) {
	for _, in := range p.stages().all {
		n += in.Load()
	}
	return n
}

// rested reports whether nothing is anywhere.
func rested(sheets []inbox.Accounts) bool {
	for _, s := range sheets {
		if s.Queued+s.InHand+s.Delayed > 0 {
			return false
		}
	}
	return inFlight(sheets) == 0
}
