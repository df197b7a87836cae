package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

const (
	period = time.Second      // between two snapshots
	kept   = 10 * time.Minute // of snapshots in the ring
	// mostStages is how many snapshots of stages the ring has, which bounds its
	// memory: about 20 MB. Of a pipeline with more than 40 stages it has less
	// than one snapshot a second.
	mostStages = 40 * int(kept/period)
	detailed   = 60               // one in so many snapshots of the ring has the buckets of durations
	lookback   = time.Minute      // of the second verdict
	interval   = 10 * time.Second // that a verdict is about
	backlog    = 16               // messages that a viewer may be behind
)

var (
	errViewers = errors.New("too many pages are open")
	errClosed  = errors.New("the dashboard is closed")
)

// sampler takes a snapshot each second while there is a viewer, or while it
// records. It keeps snapshots in a ring, and sends each viewer the changes.
type sampler struct {
	of   source
	most int           // viewers
	n    atomic.Uint64 // of the last snapshot

	mu      sync.Mutex // guards all below
	viewers map[*viewer]struct{}
	records bool
	closed  bool
	stop    chan struct{} // ends the goroutine that ticks; nil if there is none

	ring    []api.Snapshot // the oldest first
	ticks   int
	last    api.Snapshot
	text    json.RawMessage // last as JSON
	base    []byte          // last as a message; nil until a viewer needs it
	verdict []byte          // the last message of each kind; nil if there was none
	counts  []byte
	fleet   []byte
	changes uint64 // the number of the last change that was sent
}

// viewer is an open stream of events.
type viewer struct {
	messages chan []byte
	lost     bool // messages were dropped: the viewer needs a base
	ended    chan struct{}
}

func newSampler(of source, most int) *sampler {
	return &sampler{of: of, most: most, viewers: map[*viewer]struct{}{}}
}

// record takes snapshots from now on, whether there are viewers or not.
func (s *sampler) record() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = true
	s.startLocked()
}

func (s *sampler) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.records = true, false
	for v := range s.viewers {
		close(v.ended)
	}
	clear(s.viewers)
	s.stopLocked()
}

// join adds a viewer, whose first message is a base.
func (s *sampler) join() (*viewer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case len(s.viewers) >= s.most:
		return nil, errViewers
	}
	v := &viewer{messages: make(chan []byte, backlog), ended: make(chan struct{}), lost: true}
	s.viewers[v] = struct{}{}
	if s.stop == nil {
		s.startLocked() // takes a snapshot
	} else {
		s.serve(v)
	}
	return v, nil
}

func (s *sampler) leave(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.viewers, v)
	if len(s.viewers) == 0 && !s.records {
		s.stopLocked()
	}
}

// running reports whether snapshots are taken.
func (s *sampler) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop != nil
}

func (s *sampler) startLocked() {
	if s.stop != nil || s.closed {
		return
	}
	s.stop = make(chan struct{})
	s.tickLocked(s.next())
	go s.run(s.stop)
}

func (s *sampler) stopLocked() {
	if s.stop != nil {
		close(s.stop)
		s.stop = nil
	}
}

// next takes a snapshot.
func (s *sampler) next() api.Snapshot {
	snapshot := s.of.snapshot()
	snapshot.N = s.n.Add(1)
	return snapshot
}

func (s *sampler) run(stop chan struct{}) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	done := s.of.done()
	var end <-chan time.Time
	for {
		select {
		case <-stop:
			return
		case <-done:
			done, end = nil, time.After(stopped)
		case <-end:
			s.ended(stop)
			return
		case <-ticker.C:
			snapshot := s.next()
			s.mu.Lock()
			if s.stop == stop {
				s.tickLocked(snapshot)
			}
			s.mu.Unlock()
		}
	}
}

// ended ends the streams of a pipeline that has stopped: its viewers have its
// last counts. A viewer that comes later gets a base and the end.
func (s *sampler) ended(stop chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != stop {
		return
	}
	s.records, s.stop = false, nil
	for v := range s.viewers {
		close(v.ended)
	}
	clear(s.viewers)
}

// tickLocked adds a snapshot, and sends the changes.
func (s *sampler) tickLocked(snapshot api.Snapshot) {
	before, fresh := s.last, s.text == nil || snapshot.At.Sub(s.last.At) > 2*period
	text, err := json.Marshal(snapshot)
	if err != nil {
		return // a snapshot has nothing that cannot be written
	}
	delta, changed := patch(s.text, text)
	s.last, s.text, s.base = snapshot, text, nil
	s.keep(snapshot)
	var news [][]byte
	if changed && !fresh {
		news = append(news, message("delta", snapshot.N, api.Delta{N: snapshot.N, Base: before.N, Patch: delta}))
	} else {
		for v := range s.viewers {
			v.lost = true
		}
	}
	if j := s.of.journal(s.changes); len(j.Changes) > 0 {
		s.changes = j.Last
		news = append(news, message("journal", snapshot.N, j))
	}
	news = appendChanged(news, &s.verdict, "verdict", snapshot.N, s.verdictsLocked())
	news = appendChanged(news, &s.counts, "failures", snapshot.N, s.of.counts())
	if m, ok := s.of.(*many); ok {
		news = appendChanged(news, &s.fleet, "processes", snapshot.N, m.processes())
	}
	for v := range s.viewers {
		s.serve(v, news...)
	}
}

// appendChanged appends a message unless the last one of its kind was equal.
func appendChanged(news [][]byte, last *[]byte, event string, n uint64, data any) [][]byte {
	m := message(event, n, data)
	if bytes.Equal(dataOf(m), dataOf(*last)) {
		return news
	}
	*last = m
	return append(news, m)
}

// dataOf returns a message from its data on.
func dataOf(m []byte) []byte { return m[max(bytes.Index(m, []byte("\ndata: ")), 0):] }

// serve sends messages to a viewer: a base, if it has none or was too slow for
// the deltas.
func (s *sampler) serve(v *viewer, news ...[]byte) {
	if v.lost {
		if len(v.messages) > 0 {
			return // the viewer has not read its earlier messages yet
		}
		v.lost = false
		if s.base == nil {
			s.base = message("base", s.last.N, struct {
				N        uint64          `json:"n"`
				Snapshot json.RawMessage `json:"snapshot"`
			}{s.last.N, s.text})
		}
		news = [][]byte{s.base, s.verdict, s.counts, s.fleet}
	}
	for _, m := range news {
		if m == nil {
			continue
		}
		select {
		case v.messages <- m:
		default:
			v.lost = true
			return
		}
	}
}

// message returns an event of a stream. JSON has no line breaks.
func message(event string, n uint64, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		text = []byte("null") // the types of package api have nothing that cannot be written
	}
	m := make([]byte, 0, len(text)+64)
	m = append(m, "event: "+event+"\nid: "...)
	m = strconv.AppendUint(m, n, 10)
	m = append(m, "\ndata: "...)
	m = append(m, text...)
	return append(m, "\n\n"...)
}

// keep puts a snapshot into the ring.
func (s *sampler) keep(snapshot api.Snapshot) {
	every := s.every(len(snapshot.Order))
	old := slices.IndexFunc(s.ring, func(r api.Snapshot) bool { return snapshot.At.Sub(r.At) <= kept })
	if old < 0 {
		old = len(s.ring)
	}
	s.ring = slices.Delete(s.ring, 0, old)
	if s.ticks++; (s.ticks-1)%every != 0 {
		return
	}
	if (s.ticks-1)/every%detailed != 0 {
		snapshot = withoutBuckets(snapshot)
	}
	s.ring = append(s.ring, snapshot)
}

// every returns how many snapshots there are for one in the ring.
func (s *sampler) every(stages int) int {
	return max(1, (stages*int(kept/period)+mostStages-1)/mostStages)
}

func withoutBuckets(s api.Snapshot) api.Snapshot {
	stages := make(map[string]api.Stage, len(s.Stages))
	for name, st := range s.Stages {
		st.Wait.Buckets, st.Service.Buckets = nil, nil
		stages[name] = st
	}
	s.Stages = stages
	return s
}

// history returns the ring, and at its end the snapshot given, if there is one,
// or the last one.
func (s *sampler) history(now *api.Snapshot) api.History {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := api.History{EveryNs: int64(period), Snapshots: slices.Clone(s.ring)}
	if now == nil {
		now = &s.last
	}
	h.EveryNs *= int64(s.every(len(now.Order)))
	if n := len(h.Snapshots); n > 0 && h.Snapshots[n-1].N == now.N {
		h.Snapshots = h.Snapshots[:n-1]
	}
	h.Snapshots = append(h.Snapshots, *now)
	return h
}

// verdictsLocked returns the limits of the pipeline, from the ring.
func (s *sampler) verdictsLocked() api.Verdicts {
	var v api.Verdicts
	v.Now = verdictOf(s.at(s.last.At.Add(-interval)), &s.last)
	end := s.at(s.last.At.Add(-lookback))
	if start := s.at(end.At.Add(-interval)); end != &s.last && start.At.Before(end.At) {
		before := verdictOf(start, end)
		v.Before = &before
	}
	// The exact interval would make every verdict another one.
	v.Now.OverNs = int64(time.Duration(v.Now.OverNs).Round(period))
	if v.Before != nil {
		v.Before.OverNs = int64(time.Duration(v.Before.OverNs).Round(period))
	}
	v.Now.Use, v.Now.Gain = rounded(v.Now.Use), rounded(v.Now.Gain)
	return v
}

func rounded(x float64) float64 {
	r, _ := strconv.ParseFloat(fmt.Sprintf("%.2f", x), 64)
	return r
}

// at returns the last snapshot that is not later than a time, or else the first
// one.
func (s *sampler) at(t time.Time) *api.Snapshot {
	found := &s.last
	for i := len(s.ring) - 1; i >= 0; i-- {
		found = &s.ring[i]
		if !found.At.After(t) {
			break
		}
	}
	return found
}

// verdicts returns the limits of the pipeline. If no snapshots are being taken,
// it takes two, a second apart.
func (s *sampler) verdicts(over time.Duration, wait <-chan struct{}) (api.Verdicts, error) {
	s.mu.Lock()
	if s.stop != nil {
		defer s.mu.Unlock()
		v := s.verdictsLocked()
		v.Now = verdictOf(s.at(s.last.At.Add(-over)), &s.last)
		return v, nil
	}
	s.mu.Unlock()
	first := s.next()
	timer := time.NewTimer(min(over, period))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wait:
		return api.Verdicts{}, errClosed
	}
	second := s.next()
	return api.Verdicts{Now: verdictOf(&first, &second)}, nil
}
