package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/pipeline"
)

// herd is two shops, as a fleet knows its processes. A process whose name is in
// states is in another state than alive.
type herd struct {
	shops map[string]*shop
	pages map[string]http.Handler // of processes that answer
	began time.Time

	mu      sync.Mutex // guards the rest
	states  map[string]string
	drained []string
	err     error
}

func newHerd(t *testing.T, names ...string) *herd {
	t.Helper()
	h := &herd{shops: map[string]*shop{}, began: time.Now(), states: map[string]string{}}
	for _, name := range names {
		h.shops[name] = newShop(t)
	}
	return h
}

func (h *herd) set(name, state string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states[name] = state
}

func (h *herd) Pipeline() string { return "shop" }

func (h *herd) Look(context.Context) (all []link.FleetProcess, inlets []link.FleetInlet, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, nil, h.err
	}
	for _, name := range slices.Sorted(maps.Keys(h.shops)) {
		s := h.shops[name]
		p := link.FleetProcess{
			Name: name, Host: "host " + hostile, PID: 7, State: "alive", Started: h.began, Heard: time.Now(), Stages: []string{"pay"}, Snapshot: pipeline.Snapshot{},
		}
		if state := h.states[name]; state != "" {
			p.State = state
		} else {
			p.Snapshot = s.Snapshot()
			p.ID, p.Answers = "ID of "+name, h.pages[name] != nil
			p.Dead, p.Quarantine, p.Failures = s.DeadLetters().Len(), s.Quarantine().Len(), s.Pipeline.Failures().Len()
		}
		all = append(all, p)
	}
	inlets = []link.FleetInlet{{Name: "orders", Stage: "pay", Published: 10, Done: 7, Pending: 3, Processes: 2, WantedProcesses: 4, Law: "published 10 = …", Holds: true}}
	return all, inlets, nil
}

func (h *herd) Drain(_ context.Context, process, who string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shops[process] == nil {
		return errors.New("no process of this name")
	}
	h.drained = append(h.drained, process+" by "+who)
	return nil
}

func (h *herd) Get(ctx context.Context, id, path string) ([]byte, error) {
	h.mu.Lock()
	of := h.pages[strings.TrimPrefix(id, "ID of ")]
	h.mu.Unlock()
	if of == nil {
		return nil, errors.New("the process does not answer")
	}
	w := httptest.NewRecorder()
	of.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, http.NoBody))
	if w.Code != http.StatusOK {
		return nil, errors.New(w.Body.String())
	}
	return w.Body.Bytes(), nil
}

// answer has the dashboards of processes be read.
func (h *herd) answer(t *testing.T, o dashboard.Options, names ...string) {
	t.Helper()
	o.Log = discard()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pages == nil {
		h.pages = map[string]http.Handler{}
	}
	for _, name := range names {
		d, err := dashboard.New(h.shops[name].Pipeline, o)
		require.NoError(t, err)
		h.pages[name] = d
	}
}

func (h *herd) dashboard(t *testing.T, o dashboard.Options) *dashboard.Dashboard {
	t.Helper()
	o.Log = discard()
	d, err := dashboard.NewFleet(h, o)
	require.NoError(t, err)
	return d
}

func TestTheNumbersOfAFleetAreSums(t *testing.T) {
	h := newHerd(t, "a", "b")
	server := serve(t, h.dashboard(t, dashboard.Options{}))
	h.shops["a"].busy(t)
	h.shops["b"].busy(t)
	h.shops["b"].busy(t)
	sum := read[api.Snapshot](t, server, "/snapshot")
	require.EqualValues(t, 15, sum.Accepted)
	require.EqualValues(t, 9, sum.Replied)
	require.Equal(t, []string{"in " + hostile, "pay"}, sum.Order)
	pay := sum.Stages["pay"]
	require.EqualValues(t, 9, pay.Counts.OK)
	require.Equal(t, 8, pay.Workers.Most)
	require.EqualValues(t, 15, sum.Stages["in "+hostile].Edges[0].Moved)
	counted := uint64(0)
	for _, b := range pay.Service.Buckets {
		counted += b.Count
	}
	require.Equal(t, pay.Service.Count, counted, "histograms add up")
	require.LessOrEqual(t, pay.Service.P50Ns, pay.Service.P99Ns)
	require.LessOrEqual(t, pay.Service.P99Ns, pay.Service.MaxNs)

	f := read[api.Fleet](t, server, "/processes")
	require.Len(t, f.Processes, 2)
	done := uint64(0)
	for _, p := range f.Processes {
		require.Len(t, p.Stages, 2)
		done += p.Stages[1].Done
	}
	require.EqualValues(t, 9, done)
	require.EqualValues(t, 3, f.Inlets[0].Pending)
	require.True(t, read[api.Root](t, server, "").Fleet)
	for path := range readable(t) {
		r, body := get(t, server, "/golda/v1"+path)
		require.Equal(t, http.StatusOK, r.StatusCode, path)
		require.NotContains(t, body, "<script>", path)
	}
}

// soon reads an answer until it is as it must be: a view of a fleet is half a second old at most.
func soon[T any](t *testing.T, read func() T, so func(T) bool) (answer T) {
	t.Helper()
	require.Eventually(t, func() bool {
		answer = read()
		return so(answer)
	}, giveUp, 50*time.Millisecond)
	return answer
}

func TestTotalsDoNotFallWhenAProcessIsLost(t *testing.T) {
	h := newHerd(t, "a", "b")
	server := serve(t, h.dashboard(t, dashboard.Options{}))
	h.shops["a"].busy(t)
	h.shops["b"].busy(t)
	look := func() api.Snapshot { return read[api.Snapshot](t, server, "/snapshot") }
	require.EqualValues(t, 10, look().Accepted)

	h.set("b", "silent")
	s := soon(t, look, func(s api.Snapshot) bool { return read[api.Fleet](t, server, "/processes").Processes[0].State != "" })
	require.Equal(t, 8, s.Stages["pay"].Workers.Most, "it may answer the next time")

	h.set("b", "lost")
	s = soon(t, look, func(s api.Snapshot) bool { return s.Stages["pay"].Workers.Most == 4 })
	require.EqualValues(t, 10, s.Accepted)
	require.EqualValues(t, 6, s.Stages["pay"].Counts.OK)

	h.mu.Lock()
	h.err = errors.New("the server is away")
	h.mu.Unlock()
	f := soon(t, func() api.Fleet { return read[api.Fleet](t, server, "/processes") }, func(f api.Fleet) bool { return f.Error != "" })
	require.Equal(t, "the server is away", f.Error)
	require.Len(t, f.Processes, 2, "the last view stands")
	require.EqualValues(t, 10, look().Accepted)
}

func TestAProcessOfAFleetIsDrained(t *testing.T) {
	h := newHerd(t, "a")
	server := serve(t, h.dashboard(t, dashboard.Options{Token: secret}))
	require.Equal(t, []string{"drainProcess"}, read[api.Root](t, server, "").Actions)
	status, text := post(t, server, "drainProcess", `{"process":"a","who":"ann"}`, nil)
	require.Equal(t, http.StatusOK, status, text)
	require.Equal(t, []string{"a by operator:ann"}, h.drained)
	for body, want := range map[string]int{
		`{"process":"b"}`: http.StatusUnprocessableEntity, `{}`: http.StatusUnprocessableEntity, `{"process":1}`: http.StatusBadRequest,
	} {
		status, text = post(t, server, "drainProcess", body, nil)
		require.Equal(t, want, status, text)
	}
	status, text = post(t, server, "pause", `{"stage":"pay"}`, nil)
	require.Equal(t, http.StatusNotFound, status, text)
	require.Contains(t, text, "drainProcess")
	status, _ = post(t, server, "drainProcess", `{"process":"a"}`, func(r *http.Request) { r.Header.Del("Authorization") })
	require.Equal(t, http.StatusUnauthorized, status)
	r, _ := get(t, server, "/golda/v1/actions/export?store=dead")
	require.Equal(t, http.StatusUnauthorized, r.StatusCode)
}

func TestARecordingOfAFleetHasItsProcesses(t *testing.T) {
	h := newHerd(t, "a", "b")
	h.set("b", "lost")
	server := serve(t, h.dashboard(t, dashboard.Options{Record: true}))
	_, body := get(t, server, "/golda/v1/recording")
	var r api.Recording
	require.NoError(t, json.Unmarshal([]byte(body), &r))
	again := serve(t, dashboard.Open(r))
	require.Len(t, read[api.Fleet](t, again, "/processes").Processes, 2)
	require.True(t, read[api.Root](t, again, "").Fleet)
	r.Processes = nil // as older files are
	require.Empty(t, read[api.Fleet](t, serve(t, dashboard.Open(r)), "/processes").Processes)
}

func TestAFleetNeedsAFleet(t *testing.T) {
	_, err := dashboard.NewFleet(nil, dashboard.Options{})
	require.ErrorContains(t, err, "the fleet is nil")
	_, err = dashboard.NewFleet(newHerd(t), dashboard.Options{Token: "short"})
	require.ErrorContains(t, err, "Options.Token")
}

// Pages are told of a process that is lost.
func processes(t *testing.T, _ *works, b *tab) {
	h := newHerd(t, "a", "b "+hostile)
	h.shops["a"].busy(t)
	server := serve(t, h.dashboard(t, dashboard.Options{Token: token}))
	here := b.server
	b.navigate(server.URL + "/#/processes")
	b.until("document.querySelectorAll('[data-process]').length === 2 && document.querySelector('[data-count=alive]').textContent.includes('2')")
	f := read[api.Fleet](t, server, "/processes")
	for _, p := range f.Processes {
		for _, part := range p.Stages {
			row := fmt.Sprintf("[...document.querySelectorAll('[data-process] [data-part]')].find((r) => r.dataset.part === %s && r.closest('[data-process]').dataset.process === %s)",
				quote(part.Stage), quote(p.Name))
			b.until(row + "?.querySelector('[data-v=done]').textContent === " + quote(grouped(part.Done)))
		}
	}
	require.Equal(t, grouped(f.Inlets[0].Pending), b.text("[data-inlet=orders] [data-v=pending]"))
	require.Contains(t, b.text("[data-inlet=orders]"), "of 4 wanted")
	require.Zero(t, eval[int](b, "document.querySelectorAll('img, #app script').length"))

	h.set("b "+hostile, "lost")
	b.until("document.querySelector('[data-count=lost]')?.textContent.includes('1') && document.querySelector('.card.lost').dataset.process.startsWith('b ')")
	for _, theme := range []string{"dark", "light"} {
		b.colours(theme)
		b.shot("processes-of-a-fleet-" + theme)
		violations(b, axeSource(t), "processes of a fleet, "+theme)
	}
	b.size(390, 844)
	b.shot("processes-of-a-fleet-phone")
	require.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 390)
	b.size(1280, 800)
	for _, page := range pages { // all of them are there for a fleet, too
		b.show(strings.ReplaceAll(page, "weigh", "pay"))
	}
	b.show("#/failures")
	b.until("document.querySelector('main').textContent.includes('The letters of a stay in the process')")
	h.answer(t, dashboard.Options{}, "a")
	h.shops["a"].busy(t) // its letters say that there is news
	b.until("document.querySelectorAll('details.card').length === 2 && !document.querySelector('main').textContent.includes('stay in the process')")
	eval[any](b, "void (document.querySelector('details').open = true)")
	b.until("document.querySelector('details').textContent.includes('Processesa') && document.querySelector('details').textContent.includes(', in a')")
	looksWell(b, "failures of a fleet")
	link.Operate(h.shops["a"].Pipeline).Note("operator:ann", "retry", "pay", nil, nil, "a note")
	b.show("#/decisions")
	b.until("[...document.querySelectorAll('.journal tr')].some((r) => r.textContent.includes('operator:ann, in a'))")
	looksWell(b, "decisions of a fleet")
	b.show("#/processes")
	eval[any](b, "void (window.confirm = () => true)")
	b.click("Drain")
	b.until("document.querySelector('dialog[open] input[name=token]')")
	b.fill("token", token)
	b.fill("who", "ann")
	b.click("Go on")
	b.becomes(func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.drained) == 1 && h.drained[0] == "a by operator:ann"
	})
	eval[any](b, "void sessionStorage.clear()")
	b.navigate(here.URL)
}

// navigate leads to another program's page.
func (b *tab) navigate(url string) {
	b.Helper()
	b.do(chromedp.Navigate(url))
}
