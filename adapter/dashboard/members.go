package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/internal/plain"
)

const (
	askTimeout  = 2 * time.Second // for the answer of one process
	asksAtOnce  = 32
	mostChanges = 2000 // of the journals of all processes
	mostTicks   = 20   // of a stage in all processes
)

// respondent is a process whose dashboard can be read.
type respondent struct {
	*known

	name   string
	stages []api.Part
}

// answer is the answer of one process.
type answer[T any] struct {
	respondent

	value T
}

// ask reads a path from the dashboards of processes, and returns the answers in
// the order of the processes. Why a process has not answered is in m.silent.
func ask[T any](m *many, of []respondent, path func(r respondent) string) (answers []answer[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	values, places := make([]*T, len(of)), make(chan struct{}, asksAtOnce)
	var wg sync.WaitGroup
	for i, r := range of {
		id, from := r.id, root+path(r)
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			var v T
			body, err := m.fleet.Get(ctx, id, from)
			if err == nil {
				err = json.Unmarshal(body, &v)
			}
			if err != nil {
				m.silent.Store(id, plain.Text(err))
				return
			}
			m.silent.Delete(id)
			values[i] = &v
		})
	}
	wg.Wait()
	for i, v := range values {
		if v != nil {
			answers = append(answers, answer[T]{of[i], *v})
		}
	}
	return answers
}

// respondents returns the processes that can be asked about a stage; with no
// stage, all.
func (m *many) respondents(stage string) []respondent {
	m.look()
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]respondent, 0, len(m.answering))
	for _, r := range m.answering {
		if stage == "" || slices.ContainsFunc(r.stages, func(p api.Part) bool { return p.Stage == stage }) {
			all = append(all, r)
		}
	}
	return all
}

// about is the path of a question about a stage.
func about(what, stage string, limit int) func(respondent) string {
	query := url.Values{"stage": {stage}}
	if limit > 0 {
		query.Set("limit", fmt.Sprint(limit))
	}
	return func(respondent) string { return what + "?" + query.Encode() }
}

// hearLocked adds the new changes of the journals to the fleet's, which gives
// them numbers of its own.
func (m *many) hearLocked() {
	var fresh []api.Change
	for _, a := range ask[api.Journal](m, m.answering, func(r respondent) string { return fmt.Sprintf("/journal?since=%d", r.heard) }) {
		a.heard = a.value.Last
		for _, c := range a.value.Changes {
			c.Process = a.name
			fresh = append(fresh, c)
		}
	}
	slices.SortStableFunc(fresh, func(a, b api.Change) int { return a.At.Compare(b.At) })
	for _, c := range fresh {
		m.changes.Last++
		c.N = m.changes.Last
		m.changes.Changes = append(m.changes.Changes, c)
	}
	m.changes.Changes = slices.Delete(m.changes.Changes, 0, max(len(m.changes.Changes)-mostChanges, 0))
}

func (m *many) journal(since uint64) api.Journal {
	m.look()
	m.mu.Lock()
	defer m.mu.Unlock()
	return api.Journal{Last: m.changes.Last, Changes: after(m.changes.Changes, since)}
}

// letters returns letters of one process, or the first ones of all: the numbers
// of letters are of a process.
func (m *many) letters(store, process string, since uint64, limit int) (api.Letters, bool) {
	all := api.Letters{Store: store, Last: since, Letters: []api.Letter{}}
	if storeOf(store) == none || process == "" && since > 0 {
		return all, storeOf(store) != none
	}
	of := slices.DeleteFunc(m.respondents(""), func(r respondent) bool { return process != "" && r.name != process })
	path := fmt.Sprintf("/letters?store=%s&since=%d&limit=%d", store, since, limit)
	for _, a := range ask[api.Letters](m, of, func(respondent) string { return path }) {
		all.Total += a.value.Total
		all.Last = max(all.Last, a.value.Last)
		for _, l := range a.value.Letters {
			l.Process = a.name
			all.Letters = append(all.Letters, l)
		}
	}
	if process == "" {
		slices.SortStableFunc(all.Letters, func(a, b api.Letter) int { return a.At.Compare(b.At) })
		all.Letters = all.Letters[:min(len(all.Letters), limit)]
	}
	return all, true
}

// failures returns the causes of all processes: equal ones are added up.
func (m *many) failures() api.Failures {
	all := api.Failures{Groups: []api.Failure{}}
	at := map[[4]string]int{} // the place of a cause
	for _, a := range ask[api.Failures](m, m.respondents(""), func(respondent) string { return "/failures" }) {
		for _, g := range a.value.Groups {
			if g.Sample != nil {
				g.Sample.Process = a.name
			}
			g.Processes = []string{a.name}
			of := [4]string{g.Store, g.Stage, g.Reason, g.Fingerprint}
			if i, ok := at[of]; ok {
				addFailure(&all.Groups[i], &g)
				continue
			}
			at[of] = len(all.Groups)
			all.Groups = append(all.Groups, g)
		}
	}
	sortBy(all.Groups, func(f *api.Failure) int64 { return -f.Last.UnixNano() })
	return all
}

// addFailure adds a cause of a further process.
func addFailure(to, g *api.Failure) {
	to.Count += g.Count
	to.Kept += g.Kept
	to.Parked += g.Parked
	to.Waiting += g.Waiting
	to.Processes = append(to.Processes, g.Processes...)
	if g.First.Before(to.First) {
		to.First = g.First
	}
	if g.Last.After(to.Last) {
		to.Last = g.Last
	}
	if g.Sample != nil && (to.Sample == nil || g.Sample.At.After(to.Sample.At)) {
		to.Sample, to.Error, to.Stack = g.Sample, g.Error, g.Stack
	}
}

// work returns the workers that are at a batch in all processes.
func (m *many) work(stacks bool) api.Work {
	at := map[string][]api.Busy{}
	path := fmt.Sprintf("/workers?stacks=%t", stacks)
	for _, a := range ask[api.Work](m, m.respondents(""), func(respondent) string { return path }) {
		for _, s := range a.value.Stages {
			for _, b := range s.Busy {
				b.Process = a.name
				at[s.Name] = append(at[s.Name], b)
			}
		}
	}
	all := api.Work{Stages: []api.StageWork{}}
	for _, name := range m.snapshot().Order {
		busy := at[name]
		sortBy(busy, func(b *api.Busy) int64 { return -b.Ns })
		for i := range busy {
			busy[i].Worker = i + 1
		}
		if len(busy) > 0 {
			all.Stages = append(all.Stages, api.StageWork{Name: name, Busy: busy})
		}
	}
	return all
}

// keys returns the keys of a stage in each process: two processes have different
// hashes for a key.
func (m *many) keys(stage string, limit int) (hottest, error) {
	all := hottest{Stage: stage, Keys: []key{}, Whole: true}
	for _, a := range ask[hottest](m, m.respondents(stage), about("/keys", stage, limit)) {
		all.Whole = all.Whole && a.value.Whole
		for _, k := range a.value.Keys {
			k.Process = a.name
			all.Keys = append(all.Keys, k)
		}
	}
	sortBy(all.Keys, func(k *key) int64 { return -int64(k.Waiting) })
	all.Keys = all.Keys[:min(len(all.Keys), limit)]
	return all, nil
}

// timers returns the sum of the open windows of a stage, and its next acts in
// all processes.
func (m *many) timers(stage string) (timers, error) {
	all := timers{Stage: stage, Ticks: []tick{}}
	for _, a := range ask[timers](m, m.respondents(stage), about("/timers", stage, 0)) {
		all.Windows = sumWindows(all.Windows, a.value.Windows)
		for _, t := range a.value.Ticks {
			t.Process = a.name
			all.Ticks = append(all.Ticks, t)
		}
	}
	sortBy(all.Ticks, func(t *tick) int64 { return t.InNs })
	all.Ticks = all.Ticks[:min(len(all.Ticks), mostTicks)]
	return all, nil
}

// sumWindows returns the windows of two processes, each nil if it has none. Of
// the watermarks the least counts.
func sumWindows(a, b *windows) *windows {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := &windows{
		Open: a.Open + b.Open, Commands: a.Commands + b.Commands, OldestNs: max(a.OldestNs, b.OldestNs), Whole: a.Whole && b.Whole,
		Watermark: cmp.Or(a.Watermark, b.Watermark),
	}
	if b.Watermark != nil && b.Watermark.Before(*sum.Watermark) {
		sum.Watermark = b.Watermark
	}
	return sum
}
