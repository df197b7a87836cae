package dashboard

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/supervisor"
)

// live is a pipeline as a source.
type live struct {
	p       *pipeline.Pipeline
	options Options
}

func (l *live) root() api.Root {
	root := api.Root{
		Version: 1, Golda: version(), Pipeline: l.p.Name(), Process: l.options.Process, Started: link.Operate(l.p).Began(),
		ReadOnly: l.options.Token == "", Payloads: l.options.Payloads, Actions: []string{}, Policies: policy.Names(),
		Tap: l.options.Tap != nil,
	}
	if !root.ReadOnly {
		root.Actions = verbs(l.options.Payloads)
	}
	return root
}

// version returns the version of Golda in the program.
func version() string {
	const golda = "github.com/golda-dev/golda"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == golda {
			return m.Version
		}
	}
	return info.Main.Version
}

func (l *live) done() <-chan struct{} { return l.p.Done() }

func (l *live) history() (api.History, bool)  { return api.History{}, false }
func (l *live) verdict() (api.Verdicts, bool) { return api.Verdicts{}, false }

func (l *live) snapshot() api.Snapshot { return snapshotOf(l.p.Snapshot()) }

func (l *live) graph() api.Graph {
	g := api.Graph{Stages: []api.Node{}, Edges: []api.Flow{}, Feeds: []api.Source{}}
	traits := map[string]link.Traits{}
	for _, t := range link.Operate(l.p).Traits() {
		traits[t.Name] = t
	}
	s := l.p.Snapshot()
	for i := range s.Stages {
		st := &s.Stages[i]
		t := traits[st.Name]
		g.Stages = append(g.Stages, api.Node{Name: st.Name, Takes: t.Takes, Group: t.Group, Process: st.Process, Pool: st.Pool, Keyed: t.Keyed})
		for _, e := range st.Edges {
			g.Edges = append(g.Edges, api.Flow{From: st.Name, To: e.To, Port: e.Port, Back: e.Back})
		}
	}
	for i := range s.Feeds {
		g.Feeds = append(g.Feeds, api.Source{Name: s.Feeds[i].Name, To: s.Feeds[i].Stage})
	}
	return g
}

func (l *live) journal(since uint64) api.Journal {
	began := link.Operate(l.p).Began()
	j := api.Journal{Changes: []api.Change{}}
	for _, c := range l.p.Journal() {
		j.Last = c.Number
		if c.Number > since {
			j.Changes = append(j.Changes, changeOf(c, began))
		}
	}
	return j
}

func changeOf(c controller.Change, began time.Time) api.Change {
	return api.Change{
		N: c.Number, At: began.Add(c.At), Who: c.Policy, Group: c.Group, What: c.What.String(), Stage: c.StageName,
		From: plain.Text(c.Before), To: plain.Text(c.After), Reason: c.Why,
	}
}

// store returns a store of letters, nil if there is none of that name.
func (l *live) store(name string) *letters.Store {
	switch storeOf(name) {
	case dead:
		return l.p.DeadLetters()
	case quarantine:
		return l.p.Quarantine()
	case failed:
		return l.p.Failures()
	default:
		return nil
	}
}

func (l *live) letters(store, _ string, since uint64, limit int) (api.Letters, bool) {
	of := l.store(store)
	if of == nil {
		return api.Letters{}, false
	}
	list := of.List(letters.Filter{OldestFirst: true, Limit: limit, If: func(x letters.Letter) bool { return x.ID > since }})
	all := api.Letters{Store: store, Last: since, Total: of.Len(), Letters: make([]api.Letter, 0, len(list))}
	for _, x := range list {
		all.Letters = append(all.Letters, l.letter(x))
		all.Last = max(all.Last, x.ID)
	}
	return all, true
}

// letter returns a letter as JSON has it. A letter writes itself safely,
// whatever its command and its error are. Without payloads it is written
// without the command.
func (l *live) letter(x letters.Letter) api.Letter {
	kind := fmt.Sprintf("%T", x.Command)
	if !l.options.Payloads {
		x.Command = nil
	}
	var line struct {
		Error       string
		Type        string          `json:"command_type"`
		Command     json.RawMessage `json:"command"`
		Text        string          `json:"command_text"`
		Missing     string          `json:"command_missing"`
		Stack       string
		Fingerprint string
	}
	if text, err := x.MarshalJSON(); err == nil {
		_ = json.Unmarshal(text, &line) // it was just written
	}
	letter := api.Letter{
		N: x.ID, At: x.At, Stage: x.Stage, Reason: string(x.Reason), Error: line.Error, Fingerprint: line.Fingerprint,
		Attempt: x.Attempts, Type: kind, Missing: line.Missing, Stack: line.Stack,
		Parked: x.Parked, Waiting: x.Waiting,
	}
	if line.Missing != "" {
		letter.Type = line.Type
	}
	if l.options.Payloads {
		letter.Summary = line.Text
		if len(line.Command) > 0 {
			letter.Command, letter.Summary = line.Command, brief(string(line.Command))
		}
	}
	return letter
}

const longestSummary = 256

// brief returns the beginning of a text, as valid UTF-8.
func brief(text string) string { return plain.Brief(text, longestSummary) }

func (l *live) failures() api.Failures {
	all := api.Failures{Groups: []api.Failure{}}
	for k := dead; k <= failed; k++ {
		parked := parkedBy(l.store(stores[k]))
		for _, g := range l.store(stores[k]).Groups() {
			held := parked[cause{g.Stage, g.Reason, g.Fingerprint}]
			f := api.Failure{
				Store: stores[k], Stage: g.Stage, Reason: string(g.Reason), Fingerprint: g.Fingerprint, Count: g.Seen, Kept: g.Kept,
				Parked: held.letters, Waiting: held.waiting, First: g.First, Last: g.Last, Processes: []string{},
			}
			if g.Example.ID != 0 {
				sample := l.letter(g.Example)
				f.Error, f.Stack = sample.Error, sample.Stack
				sample.Stack = ""
				f.Sample = &sample
			}
			all.Groups = append(all.Groups, f)
		}
	}
	sortBy(all.Groups, func(f *api.Failure) int64 { return -f.Last.UnixNano() })
	return all
}

// cause has the values that are equal in all letters of a group.
type cause struct {
	stage       string
	reason      reason.Reason
	fingerprint string
}

// held counts the letters of a group that park keys, and the commands that wait
// for these letters.
type held struct{ letters, waiting int }

func parkedBy(store *letters.Store) map[cause]held {
	all := map[cause]held{}
	for _, x := range store.List(letters.Filter{Parked: true}) {
		by := cause{x.Stage, x.Reason, x.Fingerprint}
		h := all[by]
		all[by] = held{h.letters + 1, h.waiting + x.Waiting}
	}
	return all
}

func (l *live) counts() api.Count {
	n := api.Count{Dead: l.p.DeadLetters().Len(), Quarantine: l.p.Quarantine().Len(), Failures: l.p.Failures().Len()}
	n.Count = n.Dead + n.Quarantine + n.Failures
	return n
}

func (l *live) work(stacks bool) api.Work {
	now := time.Now()
	at := map[string][]api.Busy{}
	add := func(stage string, b api.Busy) {
		b.Since, b.Worker = now.Add(-time.Duration(b.Ns)), len(at[stage])+1
		at[stage] = append(at[stage], b)
	}
	if stacks {
		for _, h := range l.p.Handlers() {
			add(h.Stage, api.Busy{Ns: int64(h.For), At: h.At, Waits: h.Waits, Suspended: h.Suspended})
		}
	} else {
		for _, b := range link.Operate(l.p).Busy() {
			add(b.Stage, api.Busy{Ns: int64(b.For)})
		}
	}
	work := api.Work{Stages: []api.StageWork{}}
	for _, t := range link.Operate(l.p).Traits() {
		if busy := at[t.Name]; len(busy) > 0 {
			work.Stages = append(work.Stages, api.StageWork{Name: t.Name, Busy: busy})
		}
	}
	return work
}

func (l *live) tree() api.Tree {
	info := l.p.Tree()
	return treeOf(&info)
}

func treeOf(info *supervisor.Info) api.Tree {
	t := api.Tree{
		Name: info.Name, Kind: "supervisor", State: supervisor.Running.String(), Strategy: info.Strategy.String(),
		Intensity: &api.Intensity{Max: info.Intensity.Restarts, WithinNs: int64(info.Intensity.Within), Used: info.Used},
		Children:  []api.Tree{},
	}
	for i := range info.Children {
		t.Children = append(t.Children, childOf(&info.Children[i]))
	}
	return t
}

func childOf(c *supervisor.ChildInfo) api.Tree {
	t := api.Tree{Kind: "child", Children: []api.Tree{}}
	if c.Supervisor != nil {
		t = treeOf(c.Supervisor)
	}
	t.Name, t.State, t.Restarts, t.Detail = c.Name, c.State.String(), c.Restarts, c.Detail
	if !c.Since.IsZero() {
		t.Since = &c.Since
	}
	if !c.Until.IsZero() {
		t.Until = &c.Until
	}
	if c.Last != nil {
		t.LastReason = plain.Text(c.Last)
	}
	return t
}

// reasonsOf returns the totals by the fate of the commands, and the reason.
func reasonsOf(rejected, shed, lost map[reason.Reason]uint64) map[string]uint64 {
	all := map[string]uint64{}
	for what, counts := range map[string]map[reason.Reason]uint64{"rejected ": rejected, "shed ": shed, "dead-lettered ": lost} {
		for why, n := range counts {
			all[what+string(why)] = n
		}
	}
	return all
}
