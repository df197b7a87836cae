package pipeline

import (
	"fmt"
	"runtime"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/cputime"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// Snapshot is the state of a pipeline at one instant: all its accounts are read
// together.
type Snapshot struct {
	Pipeline string
	Policy   string // of the pipeline's controller
	At       time.Time

	CPU        time.Duration // CPU time that the process has used, 0 if the system does not say
	Processors int           // processors that the process may use at once

	Accepted     uint64 // submitted from outside, and emitted by handlers
	Replied      uint64 // ended with a result
	Failed       uint64 // ended with an error
	Shed         uint64 // dropped because a queue or a limit was full
	DeadLettered uint64 // ended without an answer
	InFlight     uint64 // not ended yet

	// Answered is how many of the commands that were shed or dead-lettered left
	// no letter, because their caller has the error.
	Answered uint64

	Stages []stage.Snapshot // in the order in which they were given to New
	Pools  []Pool           // the pools that stages share, or have shared
	Feeds  []FeedSnapshot   // in the order in which they were given to New and Add

	// Decided is how many times each knob was changed, by policies and
	// operators, since the pipeline was made: also the changes that the journal
	// has forgotten.
	Decided []controller.Decided
}

// Pool is the state of a pool of workers that stages share. Its counts of
// rounds and visits only grow.
type Pool struct {
	Name     string
	Policy   string   // of the group's own controller; empty if the pipeline's governs it
	Stages   []string // the stages that are bound to it now
	Dispatch controller.Dispatch
	Plan     string // the visit plan in words, if it is polled
	Workers  int    // Busy and Idle
	Busy     int    // at a stage, running a handler or about to
	Idle     int    // the others
	Most     int    // the highest number of workers so far

	Rounds      uint64 // how often a worker ended a round, that is, visited the last stage of the plan
	Visits      uint64 // of workers to stages
	EmptyVisits uint64 // visits that found no command
}

func poolOf(p *engine.Pool, stages []stage.Snapshot) Pool {
	sp := p.Shared()
	account := sp.Accounts()
	pool := Pool{
		Name: sp.Name(), Dispatch: sp.Dispatch(), Workers: account.Live, Most: account.Most,
		Rounds: account.Rounds, Visits: account.Visits, EmptyVisits: account.Empties,
	}
	if pool.Dispatch == controller.Polled {
		pool.Plan = sp.Plan().String()
	}
	for _, st := range stages {
		if st.Pool == pool.Name {
			pool.Stages = append(pool.Stages, st.Name)
			pool.Busy += st.Workers.Busy
		}
	}
	pool.Idle = max(pool.Workers-pool.Busy, 0)
	return pool
}

// Balanced reports whether the accounting law holds, for the pipeline and for
// each stage.
func (s Snapshot) Balanced() bool {
	for _, st := range s.Stages {
		if !st.Balanced() {
			return false
		}
	}
	return s.Accepted == s.Replied+s.Failed+s.Shed+s.DeadLettered+s.InFlight
}

// Law returns the accounting law with its numbers.
func (s Snapshot) Law() string {
	return fmt.Sprintf("accepted %d = replied %d + failed %d + shed %d + dead-lettered %d + in flight %d",
		s.Accepted, s.Replied, s.Failed, s.Shed, s.DeadLettered, s.InFlight)
}

// Snapshot reads all accounts at one instant. It may be called at any time.
func (p *Pipeline) Snapshot() Snapshot {
	r, accounts := p.readAccounts(inbox.Snapshot)
	s := Snapshot{Pipeline: p.life.name, Policy: p.control.PolicyNames(""), At: time.Now(), Answered: p.host.Answered(), Processors: runtime.GOMAXPROCS(0)}
	s.CPU, _ = cputime.Used()
	s.Decided = p.control.Decided()
	for i := range accounts {
		counts := &accounts[i].Counts
		s.Accepted += counts.Submitted + counts.Emitted
		s.Replied += counts.OK
		s.Failed += counts.Errors
		s.Shed += counts.Shed
		s.DeadLettered += counts.DeadLettered
	}
	s.Stages = make([]stage.Snapshot, 0, len(r.stages))
	for i, c := range r.stages {
		s.Stages = append(s.Stages, c.Snapshot(*r.of(accounts, i)).(stage.Snapshot))
	}
	p.addEdges(s.Stages, r.stages)
	for _, pool := range p.pools.list() {
		if pool.Shared() == nil {
			continue
		}
		of := poolOf(pool, s.Stages)
		if hasGroup(p.groups, of.Name) {
			of.Policy = p.control.PolicyNames(of.Name)
		}
		s.Pools = append(s.Pools, of)
	}
	s.InFlight = inFlight(accounts)
	for _, f := range p.feeds.list() {
		s.Feeds = append(s.Feeds, f.snapshot())
	}
	return s
}

// addEdges adds the edges of the graph to the snapshots of the stages from which
// they lead. An edge to a stage that was removed meanwhile is left out.
func (p *Pipeline) addEdges(all []stage.Snapshot, stages []*engine.Core) {
	at := make(map[int]*stage.Snapshot, len(all)) // by the place of the stage
	for i, c := range stages {
		at[c.Inbox().Place] = &all[i]
	}
	for _, e := range p.graph.Edges() {
		from, to := at[e.From], at[e.To]
		if from == nil || to == nil {
			continue
		}
		from.Edges = append(from.Edges, struct {
			To, Port string
			Back     bool
			Moved    uint64
		}{to.Name, e.Port, e.Back, e.Moved})
	}
}

// Tree returns the state of the supervision tree: the stages and the control
// loop, in the order in which they were started, then the pools that stages
// share and the stages that were added, with how often each was restarted and
// why it last ended. The workers of a stage are counted in its line: how many
// there are, how often a handler crashed, and how many workers replaced one
// that crashed; see [stage.Snapshot]. It is empty before the start. After the
// end it is the last state.
func (p *Pipeline) Tree() supervisor.Info {
	p.life.mu.Lock()
	tree := p.life.tree
	p.life.mu.Unlock()
	if tree == nil {
		return supervisor.Info{}
	}
	info := tree.Info()
	info.Children = append(info.Children, p.pools.info())
	p.addWorkers(info.Children)
	return info
}

// addWorkers adds the counts of the workers to the children that are stages.
func (p *Pipeline) addWorkers(children []supervisor.ChildInfo) {
	of := map[string]string{}
	for _, s := range p.Snapshot().Stages {
		of[s.Name] = fmt.Sprintf("workers: %d, crashes: %d, replaced: %d", s.Workers.Live, s.Counts.Crashes, s.Counts.Restarts)
	}
	for i := range children {
		c := &children[i]
		c.Detail = of[c.Name]
		if c.Supervisor != nil {
			p.addWorkers(c.Supervisor.Children)
		}
	}
}
