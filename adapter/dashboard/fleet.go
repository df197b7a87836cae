package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/supervisor"
)

// Fleet is the processes that run one pipeline: a *fleet.Fleet of adapter/nats
// is one. Its methods may be called by any goroutine.
type Fleet interface {
	// Pipeline returns the name of the pipeline.
	Pipeline() string
	// Look asks all processes. With an error it returns the known part.
	Look(ctx context.Context) ([]link.FleetProcess, []link.FleetInlet, error)
	// Get reads from the dashboard of a process that answers, by its ID: a path
	// of the API such as /golda/v1/failures.
	Get(ctx context.Context, id, path string) (body []byte, err error)
	// Drain asks a process to stop taking work, for an operator of a name.
	Drain(ctx context.Context, process, who string) error
}

// NewFleet returns a dashboard that shows all processes of a pipeline: their
// stages, summed and each, the processes that are lost, and the inlets. Its only
// action is to drain a process, and its tree has the states of the processes.
// Options.Tap, Show and Payloads have no effect.
//
// It has the letters, the journal, the workers at work, the keys and the windows
// of the processes that have given their own dashboards to the fleet, with
// fleet.Options.Dashboard, as these show them.
//
// Each tick asks each process for a snapshot, and for the news of its journal,
// by a message each. The rest is asked for when a client asks.
func NewFleet(f Fleet, o Options) (*Dashboard, error) {
	if f == nil {
		return nil, errors.New("dashboard: NewFleet: the fleet is nil")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Process == "" {
		o.Process = processName()
	}
	o.Tap, o.Payloads = nil, false
	d := newDashboard(&many{fleet: f, options: o, began: time.Now(), members: map[joined]*known{}}, o)
	if o.Record {
		d.sampler.record()
	}
	return d, nil
}

const (
	lookTimeout = 5 * time.Second // for a view of the fleet
	fresh       = period / 2      // a view is not asked for again so soon
	mostGone    = 256             // processes that are gone whose totals are kept apart
)

// many is the processes of a fleet as a source.
type many struct {
	fleet   Fleet
	options Options
	began   time.Time

	silent sync.Map // by the ID of a process, why it has not answered

	mu        sync.Mutex // guards the rest, and is held while the fleet is asked
	looked    time.Time
	view      api.Fleet
	sum       api.Snapshot
	members   map[joined]*known
	gone      api.Snapshot // totals of processes that are forgotten
	answering []respondent
	changes   api.Journal
}

// joined is a process, from its Join until it has ended.
type joined struct {
	name    string
	started time.Time
}

// known has the last news of a process.
type known struct {
	id       string
	snapshot api.Snapshot // the last one; the zero one if there was none
	counted  bool         // its queues and workers are there: it is alive, or silent
	letters  api.Count
	heard    uint64 // the number of its last change that the fleet's journal has
}

// look asks the fleet, unless it has just been asked.
func (m *many) look() (api.Fleet, api.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.looked.IsZero() && time.Since(m.looked) < fresh {
		return m.view, m.sum
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	processes, inlets, err := m.fleet.Look(ctx)
	m.looked = time.Now()
	if err != nil && len(processes) == 0 { // the server is away: the last view stands
		m.view.At, m.view.Error, m.sum.At = m.looked, plain.Text(err), m.looked
		m.view.Processes, m.view.Inlets = notNil(m.view.Processes), notNil(m.view.Inlets)
		if m.sum.Stages == nil {
			m.sum = m.sumLocked()
		}
		return m.view, m.sum
	}
	view := api.Fleet{At: m.looked, Processes: []api.Process{}, Inlets: []api.Inlet{}}
	if err != nil {
		view.Error = plain.Text(err)
	}
	for _, k := range m.members {
		k.counted = false
	}
	m.answering = m.answering[:0]
	for i := range processes {
		p := m.processLocked(&processes[i])
		if view.Processes = append(view.Processes, p); p.Answers {
			m.answering = append(m.answering, respondent{m.members[joined{p.Name, p.Started}], p.Name, p.Stages})
		}
	}
	m.hearLocked()
	for _, i := range inlets {
		view.Inlets = append(view.Inlets, api.Inlet(i))
	}
	m.forgetLocked()
	m.view, m.sum = view, m.sumLocked()
	return m.view, m.sum
}

// processLocked notes the snapshot of a process, and returns it as the API has
// it.
func (m *many) processLocked(p *link.FleetProcess) api.Process {
	out := api.Process{
		Name: p.Name, Host: p.Host, PID: p.PID, State: p.State, Started: p.Started, Heard: p.Heard, Answers: p.Answers, Stages: []api.Part{},
	}
	if p.Err != nil {
		out.Error = plain.Text(p.Err)
	} else if why, ok := m.silent.Load(p.ID); ok && p.Answers {
		out.Error = "its dashboard: " + why.(string)
	}
	key := joined{p.Name, p.Started}
	k := m.members[key]
	if k == nil {
		k = &known{id: p.ID}
		m.members[key] = k
	}
	if s, ok := p.Snapshot.(pipeline.Snapshot); ok && !s.At.IsZero() {
		k.snapshot = snapshotOf(s)
		k.letters = api.Count{Count: p.Dead + p.Quarantine + p.Failures, Dead: p.Dead, Quarantine: p.Quarantine, Failures: p.Failures}
	}
	if k.snapshot.At.IsZero() {
		for _, name := range p.Stages {
			out.Stages = append(out.Stages, api.Part{Stage: name})
		}
		return out
	}
	k.counted = p.State == "alive" || p.State == "silent"
	out.Accepted, out.InFlight = k.snapshot.Accepted, k.snapshot.InFlight
	for _, name := range k.snapshot.Order {
		if st := k.snapshot.Stages[name]; st.Process == "" {
			out.Stages = append(out.Stages, partOf(name, &st))
		}
	}
	return out
}

func partOf(name string, st *api.Stage) api.Part {
	c := &st.Counts
	return api.Part{
		Stage: name, Workers: st.Workers.Live, Busy: st.Workers.Busy, Most: st.Workers.Most, Queue: st.Queue.Length, Capacity: st.Queue.Capacity,
		Done: c.OK + c.Forwarded, Errors: c.Errors + c.Shed + c.DeadLettered, Crashes: c.Crashes,
	}
}

// forgetLocked adds the totals of processes that are gone to one snapshot, if
// there are very many. Totals only grow.
func (m *many) forgetLocked() {
	if len(m.members) <= mostGone {
		return
	}
	for key, k := range m.members {
		if !k.counted {
			m.gone = sumOf([]api.Snapshot{m.gone, totals(k.snapshot)})
			delete(m.members, key)
		}
	}
}

// sumLocked returns the sum of all processes: of the ones that are gone only the
// totals.
func (m *many) sumLocked() api.Snapshot {
	all := []api.Snapshot{m.gone}
	for _, k := range m.members {
		if k.counted {
			all = append(all, k.snapshot)
		} else {
			all = append(all, totals(k.snapshot))
		}
	}
	s := sumOf(all)
	s.At, s.Pipeline = m.looked, m.fleet.Pipeline()
	return s
}

func (m *many) root() api.Root {
	r := api.Root{
		Version: 1, Golda: version(), Pipeline: m.fleet.Pipeline(), Process: m.options.Process, Started: m.began, Fleet: true,
		ReadOnly: m.options.Token == "", Actions: []string{}, Policies: []string{},
	}
	if !r.ReadOnly {
		r.Actions = []string{drainProcess}
	}
	return r
}

func (m *many) snapshot() api.Snapshot {
	_, s := m.look()
	return s
}

func (m *many) processes() api.Fleet {
	f, _ := m.look()
	return f
}

// graph returns the stages and edges of all processes. A stage that one process
// runs alone is drawn there.
func (m *many) graph() api.Graph {
	f, s := m.look()
	runs := map[string][]string{}
	for i := range f.Processes {
		if p := &f.Processes[i]; p.State == "alive" || p.State == "silent" {
			for _, part := range p.Stages {
				runs[part.Stage] = append(runs[part.Stage], p.Name)
			}
		}
	}
	g := api.Graph{Stages: []api.Node{}, Edges: []api.Flow{}, Feeds: []api.Source{}}
	for _, name := range s.Order {
		n := api.Node{Name: name, Pool: s.Stages[name].Pool}
		if len(runs[name]) == 1 && len(f.Processes) > 1 {
			n.Process = runs[name][0]
		}
		g.Stages = append(g.Stages, n)
		for _, e := range s.Stages[name].Edges {
			g.Edges = append(g.Edges, api.Flow{From: name, To: e.To, Port: e.Port, Back: e.Back})
		}
	}
	for name, f := range s.Feeds {
		g.Feeds = append(g.Feeds, api.Source{Name: name, To: f.To})
	}
	sortText(g.Feeds, func(s *api.Source) string { return s.Name })
	return g
}

// tree returns the processes with their states.
func (m *many) tree() api.Tree {
	f, _ := m.look()
	t := api.Tree{Name: m.fleet.Pipeline(), Kind: "fleet", State: supervisor.Running.String(), Children: []api.Tree{}}
	for i := range f.Processes {
		p := &f.Processes[i]
		t.Children = append(t.Children, api.Tree{
			Name: p.Name, Kind: "process", State: p.State, Since: &p.Started, LastReason: p.Error, Detail: p.Host, Children: []api.Tree{},
		})
	}
	return t
}

// counts returns the letters of the processes that are there.
func (m *many) counts() (n api.Count) {
	m.look()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.members {
		if k.counted {
			n.Count += k.letters.Count
			n.Dead += k.letters.Dead
			n.Quarantine += k.letters.Quarantine
			n.Failures += k.letters.Failures
		}
	}
	return n
}

func (m *many) done() <-chan struct{} { return nil }

func (m *many) history() (api.History, bool)  { return api.History{}, false }
func (m *many) verdict() (api.Verdicts, bool) { return api.Verdicts{}, false }

// processes returns the one process that a pipeline runs in.
func (l *live) processes() api.Fleet {
	s := l.p.Snapshot()
	p := api.Process{
		Name: l.options.Process, State: "alive", Started: link.Operate(l.p).Began(), Heard: s.At, Accepted: s.Accepted, InFlight: s.InFlight,
		Stages: []api.Part{},
	}
	for i := range s.Stages {
		if s.Stages[i].Process == "" {
			st := stageOf(&s.Stages[i])
			p.Stages = append(p.Stages, partOf(s.Stages[i].Name, &st))
		}
	}
	return api.Fleet{At: s.At, Processes: []api.Process{p}, Inlets: []api.Inlet{}}
}

func (r *recorded) processes() api.Fleet {
	if r.Processes == nil { // an older file
		return api.Fleet{Processes: []api.Process{}, Inlets: []api.Inlet{}}
	}
	return *r.Processes
}

// drain asks a process to stop taking work.
func (m *many) drain(ctx context.Context, r *request) (api.Done, error) {
	if r.Process == "" {
		return api.Done{}, errors.New("name a process")
	}
	err := m.fleet.Drain(ctx, r.Process, "operator:"+operator(r.Who))
	return api.Done{Text: r.named() + " drains"}, err
}
