package dashboard

import (
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

// source is the subject of a dashboard: a pipeline that runs, or a recording.
type source interface {
	root() api.Root
	snapshot() api.Snapshot
	graph() api.Graph
	journal(since uint64) api.Journal
	letters(store, process string, since uint64, limit int) (api.Letters, bool) // the process is for a fleet; empty: all
	failures() api.Failures
	counts() api.Count
	work(stacks bool) api.Work
	keys(stage string, limit int) (hottest, error)
	timers(stage string) (timers, error)
	tree() api.Tree
	processes() api.Fleet
	// done is closed when nothing changes any more.
	done() <-chan struct{}
	// history and verdict replace the sampler's if ok is true.
	history() (h api.History, ok bool)
	verdict() (v api.Verdicts, ok bool)
}

// recorded is a recording as a source.
type recorded struct{ api.Recording }

func (r *recorded) root() api.Root {
	root := r.Root
	root.ReadOnly, root.Recorded, root.Tap, root.Actions = true, true, false, []string{}
	return root
}

func (r *recorded) snapshot() api.Snapshot {
	if n := len(r.History.Snapshots); n > 0 {
		return r.History.Snapshots[n-1]
	}
	return api.Snapshot{Pipeline: r.Root.Pipeline, At: r.Root.Started}
}

func (r *recorded) graph() api.Graph { return r.Graph }

func (r *recorded) journal(since uint64) api.Journal {
	return api.Journal{Last: r.Journal.Last, Changes: after(r.Journal.Changes, since)}
}

// letters returns the samples of the groups: a recording has no other letters.
func (r *recorded) letters(store, _ string, since uint64, limit int) (api.Letters, bool) {
	if storeOf(store) == none {
		return api.Letters{}, false
	}
	l := api.Letters{Store: store, Last: since, Letters: []api.Letter{}}
	for _, g := range r.Failures.Groups {
		if g.Store != store || g.Sample == nil {
			continue
		}
		l.Total++
		if g.Sample.N > since && len(l.Letters) < limit {
			l.Letters = append(l.Letters, *g.Sample)
			l.Last = max(l.Last, g.Sample.N)
		}
	}
	return l, true
}

func (r *recorded) failures() api.Failures { return r.Failures }

func (r *recorded) counts() (n api.Count) {
	for _, g := range r.Failures.Groups {
		n.Count += g.Kept
		switch storeOf(g.Store) {
		case dead:
			n.Dead += g.Kept
		case quarantine:
			n.Quarantine += g.Kept
		case failed:
			n.Failures += g.Kept
		default:
		}
	}
	return n
}

func (r *recorded) work(bool) api.Work { return r.Work }
func (r *recorded) tree() api.Tree     { return r.Tree }

func (r *recorded) done() <-chan struct{} { return nil }

func (r *recorded) history() (api.History, bool) { return r.History, true }

func (r *recorded) verdict() (api.Verdicts, bool) { return r.Verdicts, true }

// after returns the changes with larger numbers, never nil.
func after(changes []api.Change, since uint64) []api.Change {
	rest := make([]api.Change, 0, len(changes))
	for _, c := range changes {
		if c.N > since {
			rest = append(rest, c)
		}
	}
	return rest
}

// kind is one of the stores of letters.
type kind int

const (
	none kind = iota
	dead
	quarantine
	failed
)

// stores are the names of the stores in the API.
var stores = map[kind]string{dead: "dead", quarantine: "quarantine", failed: "failures"}

func storeOf(name string) kind {
	for k, n := range stores {
		if n == name {
			return k
		}
	}
	return none
}

// stopped is how long events go on after the pipeline has stopped, so that its
// last counts are seen.
const stopped = 2 * time.Second
